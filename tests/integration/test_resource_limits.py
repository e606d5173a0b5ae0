"""Out of threads, address space or descriptors, at every moment of a start: 78, and the limit by name and value."""
import os
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tiny_runs import TinyRuns, environment, wait_for

THREADS = 4
NOBODY = 65534
MIB = 1 << 20


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("limits"), steps=2, every=1000)
    made.run("warm")  # the caches are there: every run takes the same way
    return made


def under(runs, name, limits, ranks=1, prefix=(), **overrides):
    """The end of a run under these limits: its exit code and all it said."""
    def prepare():
        for kind, value in limits.items():
            resource.setrlimit(kind, (value, value))

    done = subprocess.run([*prefix, *runs.command(name, ranks=ranks, **overrides)], capture_output=True, text=True,
                          timeout=120, env=environment(), preexec_fn=prepare)
    return done.returncode, done.stdout + done.stderr


def all_of(cases, run):
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(cases, pool.map(run, cases)))


# ---- threads

def of_nobody():
    """Limits on processes do not bind root: the same files as another user; and how many processes that one has."""
    if os.geteuid() != 0:
        own = [pid for pid in os.listdir("/proc") if pid.isdigit() and owner(pid) == os.geteuid()]
        return [], sum(len(os.listdir(f"/proc/{pid}/task")) for pid in own if os.path.exists(f"/proc/{pid}/task"))
    keep = "-all,+dac_override"
    return ["setpriv", f"--reuid={NOBODY}", "--clear-groups", f"--inh-caps={keep}", f"--ambient-caps={keep}"], 0


def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        return None


def test_no_threads_left(runs):
    prefix, used = of_nobody()

    def run(extra):
        return under(runs, f"threads-{extra}", {resource.RLIMIT_NPROC: used + extra}, prefix=prefix,
                     runtime__threads=THREADS)
    for extra in (1, 3, 8):  # itself; within LibTorch's first pool; within its second
        code, text = run(extra)
        assert code == 78, f"{extra}: {text}"
        assert f"RLIMIT_NPROC = {used + extra}" in text and "a bug in wmtp" not in text, text


def test_the_launcher_says_so_too(runs):
    prefix, used = of_nobody()
    code, text = under(runs, "launcher", {resource.RLIMIT_NPROC: used + 2}, ranks=2, prefix=prefix)
    assert code == 78 and f"RLIMIT_NPROC = {used + 2}" in text, text


# ---- address space

@pytest.fixture(scope="module")
def loaded(runs):
    """The address space (MiB) of the program once its libraries are mapped, when its first handlers stand."""
    process = subprocess.Popen(runs.command("loaded"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def status():
        with open(f"/proc/{process.pid}/status") as file:
            return dict(line.split(":", 1) for line in file)
    wait_for(lambda: int(status()["SigCgt"], 16) >> (signal.SIGUSR2 - 1) & 1 or process.poll() is not None)
    size = int(status()["VmSize"].split()[0]) // 1024
    process.kill()
    process.wait()
    return size


@pytest.mark.parametrize("ranks, more", [(1, (2, 20, 60, 110)), (2, (20, 90))])
def test_no_address_space_left(runs, loaded, ranks, more):
    """In LibTorch's initialisers, in ours, and where the stacks of the threads that a run needs come on top of them."""
    limits = [loaded + mib for mib in more]

    def run(limit):
        return under(runs, f"space-{ranks}-{limit}", {resource.RLIMIT_AS: limit * MIB,
                                                      resource.RLIMIT_STACK: 8 * MIB}, ranks=ranks)
    for limit, (code, text) in all_of(limits, run).items():
        if code == 127 and limit == limits[0]:  # the loader itself: there is no program yet to speak
            assert "error while loading shared libraries" in text, text
            continue
        assert code == 78, f"{limit} MiB, of which {loaded} loaded: {code}\n{text}"
        assert f"RLIMIT_AS = {limit} MiB" in text and "a bug in wmtp" not in text, text


# ---- descriptors

def test_no_descriptors_left(runs):
    for limit in (4, 5):
        code, text = under(runs, f"files-{limit}", {resource.RLIMIT_NOFILE: limit})
        assert code == 78 and f"RLIMIT_NOFILE = {limit}" in text, text
