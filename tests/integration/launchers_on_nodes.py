"""One `wmtp launch` with one rank on each of two nodes, over a cable that can be cut."""
import subprocess

from tiny_runs import children, environment
from two_nodes import ADDRESSES


class NodeLaunchers:
    """OWNS two launchers of a run of tiny_runs. Each node has the caches on a disk of its own."""

    PORT = 29621

    def __init__(self, runs, nodes, name, *flags, failpoint=None, hits=None, **overrides):
        self.runs, self.name = runs, name
        cache = runs.folder / "data/cache"
        cache.mkdir(exist_ok=True)
        program, json_flag, *train = runs.command(name, dataset__cache_dir=str(cache), **overrides)
        self.processes = []
        for node in range(2):
            self.disk(node).mkdir(exist_ok=True)
            words = ["--nproc", "1", *flags]
            env = {**environment(failpoint, hits), "WMTP_RUN_TOKEN": "ef" * 16}
            if node == 0:
                words += ["--nnodes", "2", "--node-rank", "0", "--master-addr", ADDRESSES[0], "--master-port", str(self.PORT)]
            else:  # it learns its place from the variables of a pod
                env.update(PET_NNODES="2", PET_NODE_RANK="1", PET_MASTER_ADDR=ADDRESSES[0], PET_MASTER_PORT=str(self.PORT))
            argv = nodes.command(node, [program, json_flag, "launch", *words, "--", *train], [(self.disk(node), cache)])
            with self.log(node).open("a") as log:
                self.processes.append(subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT))

    def disk(self, node):
        return self.runs.folder / f"disk{node}"

    def log(self, node):
        return self.runs.folder / f"{self.name}.{node}.log"

    def text(self):
        return "".join(self.log(node).read_text() for node in range(2))

    def rank(self, node):
        """The process of that node's rank."""
        (pid,) = children(self.processes[node].pid)
        return pid

    def any_ended(self):
        return any(process.poll() is not None for process in self.processes)

    def ends(self, timeout=120):
        """The codes of both, once both have ended."""
        return [process.wait(timeout) for process in self.processes]
