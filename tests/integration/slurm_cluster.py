"""A real Slurm of two nodes on this machine: jobs, their states, and what they were told."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/support/servers/slurm.sh"
BATCH_SCRIPTS = ROOT / "packaging/slurm"
# Where the nodes' names are known: a hosts file of its own for the daemons, and so for all that they start.
IN_OWN_MOUNTS = 'mount --make-rprivate / && mount --bind "$1" /etc/hosts && shift && exec "$@"'
ENDED = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL"}

# A Qwen3 every step of which is told; it saves where the test says so.
QWEN3 = {"models__policy__path": "micro-qwen3", "models__policy__n_future_tokens": 1, "training__eval_every_steps": None,
         "training__log_interval": 1}


def why_not():
    """What this machine does not allow of it; empty: nothing."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun", "sbatch")
               if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
    if missing:
        return f"no {', '.join(missing)}: tools/setup --python installs them"
    tried = subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"], capture_output=True, text=True)
    return tried.stderr.strip()


class SlurmCluster:
    """Nodes n1 and n2 of four CPUs each. A job's environment is that of the tests with `environment` over it."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # sockets are in it: their paths must be short
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {socket.gethostname().split('.')[0]} n1 n2\n")
        started = self._script("start")
        cleared = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "MASTER_", "PMI"))}
        self.environment = {**cleared, "SLURM_CONF": started.strip().rpartition("=")[2]}
        return self

    def __exit__(self, *_):
        subprocess.run([SCRIPT, "stop", self.folder], check=True, capture_output=True)
        shutil.rmtree(self.folder)

    def _script(self, verb, *words):
        done = subprocess.run(["unshare", "-m", "sh", "-c", IN_OWN_MOUNTS, "sh", self.folder / "hosts", SCRIPT, verb, self.folder,
                               *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, *argv, **options):
        """One of Slurm's programs; what it printed."""
        options = {"env": self.environment, "timeout": 120, **options}
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, **options)
        assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, script, *words, flags=(), output, **variables):
        """The number of a job: `words` follow the script, `flags` go before it."""
        environment = {**self.environment, **{name: str(value) for name, value in variables.items()}}
        return self.call("sbatch", "--parsable", "--gpus-per-node=0", f"--output={output}", *flags, script, *words,
                         env=environment).strip()

    def facts(self, job):
        """JobState, Restarts, ExitCode and whatever else Slurm knows of it."""
        words = self.call("scontrol", "show", "job", "-o", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for(self, job, *states, seconds=180):
        """BLOCKS until the job is in one of the states, or has ended; its facts."""
        deadline = time.monotonic() + seconds
        while (found := self.facts(job))["JobState"] not in ENDED | set(states):
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        return found

    def ranks(self, job):
        """Rank -> pid of what runs of a job's step."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "comm").read_text() == "wmtp\n":
                    variables = (folder / "environ").read_bytes().split(b"\0")
                    own = dict(line.decode().split("=", 1) for line in variables if line.startswith(b"SLURM_"))
                    if (own.get("SLURM_CONF"), own.get("SLURM_JOB_ID")) == (self.environment["SLURM_CONF"], job):
                        found[int(own["SLURM_PROCID"])] = int(folder.name)
            except OSError:  # it has just ended
                pass
        return found

    def cut_power(self, node, rank):
        """SIGKILL for all there is on a node: its slurmd, the daemon of the one step on it, and that step's one rank."""
        records = (line.split() for line in (self.folder / "slurm/pids").read_text().splitlines())
        (slurmd,) = [int(pid) for name, pid, _born in records if name == node]
        step = int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
        assert Path(f"/proc/{step}/comm").read_text() == "slurmstepd\n"
        for pid in (slurmd, step, rank):
            os.kill(pid, signal.SIGKILL)

    def reboot(self, node):
        """A node whose power was cut comes back, with nothing running on it."""
        self._script("reboot", node)

    def node_state(self, node):
        return self.call("sinfo", "-h", "-n", node, "-p", "main", "-o", "%T").strip()

    def submit_run(self, script, runs, name, flags=(), variables=None, **overrides):
        """A run of tiny_runs as a job of packaging/slurm: a rank on each node, unless `flags` say otherwise."""
        *_, folder = words = runs.command(name)
        config = words[words.index("--config") + 1]
        more = runs.command(name, **overrides)[len(words):]
        return self.submit(BATCH_SCRIPTS / script, "--defaults", "none", *more, output=runs.folder / f"{name}.out",
                           flags=["--nodes=2", "--ntasks-per-node=1", "--time=10", "--signal=USR1@60", *flags],
                           **{"CONFIG": config, "RUN_DIR": folder, "WMTP": runs.wmtp.binary, **(variables or {})})
