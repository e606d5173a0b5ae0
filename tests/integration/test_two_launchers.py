"""One `wmtp launch` on each of two nodes: a static job over a network."""
import os
import signal
import subprocess
import time

import pytest
from history import content_hash
from tiny_runs import TinyRuns, children, environment, wait_for
from two_nodes import ADDRESSES, TwoNodes, why_not

PORT = 29621
SLOW = "step.begin:nth=1+=sleep:100"


@pytest.fixture(scope="module")
def nodes():
    if reason := why_not():
        pytest.skip(f"no two nodes here: {reason}")
    with TwoNodes() as both:
        yield both


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    return TinyRuns(wmtp, tmp_path_factory.mktemp("two_launchers"), steps=20, every=5)


@pytest.fixture(scope="module")
def one_launcher(runs):
    """The final state of the same world on one node."""
    runs.run("one", ranks=2)
    return content_hash(runs.checkpoint("one", 20))


def launch(runs, nodes, name, failpoint=None):
    """A launcher on each node; the second learns its place from the variables of a pod."""
    program, json_flag, *train = runs.command(name)
    processes = []
    for node in range(2):
        flags = ["--nproc", "1"]
        env = {**environment(failpoint), "WMTP_RUN_TOKEN": "ef" * 16}
        if node == 0:
            flags += ["--nnodes", "2", "--node-rank", "0", "--master-addr", ADDRESSES[0], "--master-port", str(PORT)]
        else:
            env.update(PET_NNODES="2", PET_NODE_RANK="1", PET_MASTER_ADDR=ADDRESSES[0], PET_MASTER_PORT=str(PORT))
        argv = nodes.command(node, [program, json_flag, "launch", *flags, "--", *train])
        with open(runs.folder / f"{name}.{node}.log", "a") as log:
            processes.append(subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT))
    return processes


def ends(runs, name, processes, timeout=120):
    codes = [process.wait(timeout) for process in processes]
    return codes, "".join((runs.folder / f"{name}.{node}.log").read_text() for node in range(2))


def test_two_launchers_train_as_one_does(runs, nodes, one_launcher):
    codes, text = ends(runs, "two", launch(runs, nodes, "two"))
    assert codes == [0, 0], text
    assert content_hash(runs.checkpoint("two", 20)) == one_launcher


def test_nodes_that_lose_each_other_both_end_with_75_and_go_on_together(runs, nodes, one_launcher):
    """The cable is cut: neither node hears that the other has gone."""
    processes = launch(runs, nodes, "cut", failpoint=SLOW)
    wait_for(lambda: runs.steps("cut") or any(process.poll() is not None for process in processes))
    nodes._on(0, "ip link set cable down")
    begun = time.monotonic()
    codes, text = ends(runs, "cut", processes)
    assert codes == [75, 75], text
    assert time.monotonic() - begun < 30
    assert runs.steps("cut")[-1] < 20
    nodes._on(0, "ip link set cable up")
    codes, text = ends(runs, "cut", launch(runs, nodes, "cut"))
    assert codes == [0, 0], text
    assert '"resumed"' in text or "Resumed from" in text
    assert content_hash(runs.checkpoint("cut", 20)) == one_launcher


@pytest.mark.skipif("WMTP_SOAK" not in os.environ, reason="of the long tier: WMTP_SOAK is not set")
def test_a_killed_node_ends_the_other_with_75(runs, nodes):
    processes = launch(runs, nodes, "killed", failpoint=SLOW)
    wait_for(lambda: runs.steps("killed") or any(process.poll() is not None for process in processes))
    for pid in [*children(processes[1].pid), processes[1].pid]:
        os.kill(pid, signal.SIGKILL)
    begun = time.monotonic()
    codes, text = ends(runs, "killed", processes)
    assert codes[0] == 75 and time.monotonic() - begun < 30, text
