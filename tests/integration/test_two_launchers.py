"""One `wmtp launch` on each of two nodes with disks of their own: a static job over a network that may break."""
import time

import pytest
from history import content_hash
from launchers_on_nodes import NodeLaunchers
from tiny_runs import TinyRuns, losses_by_step, starts, wait_for
from two_nodes import TwoNodes, why_not

STEPS = 20
SLOW = "step.begin:nth=1+=sleep:100"
KEYS = {"training__log_interval": 1, "checkpoint__async": False}  # no save is left out because another has not ended
LEAVE_S = 20  # both sides of a cut, 5 s of which are the watchdog's


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
    return TinyRuns(wmtp, tmp_path_factory.mktemp("two_launchers"), steps=STEPS, every=5)


@pytest.fixture(scope="module")
def one_launcher(runs):
    """The same world on one node: the name of the run."""
    runs.run("one", ranks=2, **KEYS)
    return "one"


def assert_same_history(runs, name, other):
    assert content_hash(runs.checkpoint(name, STEPS)) == content_hash(runs.checkpoint(other, STEPS))
    assert losses_by_step(runs, name) == losses_by_step(runs, other)


def test_two_launchers_train_as_one_does(runs, nodes, one_launcher):
    both = NodeLaunchers(runs, nodes, "two", **KEYS)
    assert both.ends() == [0, 0], both.text()
    caches = [sorted(path.name for path in both.disk(node).rglob("*.wtok")) for node in range(2)]
    assert caches[0] == caches[1] != [], "each node has made its own"
    assert_same_history(runs, "two", one_launcher)


def test_nodes_that_lose_each_other_both_end_with_75_and_go_on_together(runs, nodes, one_launcher):
    """The cable is cut: neither node hears that the other has gone, and neither goes on alone."""
    both = NodeLaunchers(runs, nodes, "cut", failpoint=SLOW, **KEYS)
    wait_for(lambda: runs.steps("cut") or both.any_ended())
    nodes.cut()
    begun = time.monotonic()
    assert both.ends() == [75, 75], both.text()
    assert time.monotonic() - begun < LEAVE_S
    saved = runs.steps("cut")
    assert saved[-1] < STEPS
    # One side alone begins nothing, as often as it is started.
    alone = NodeLaunchers(runs, nodes, "cut", **KEYS, distributed__rendezvous_timeout_s=5)
    assert alone.ends() == [75, 75], alone.text()
    assert runs.steps("cut") == saved and len(starts(runs, "cut")) == 1
    nodes.mend()
    both = NodeLaunchers(runs, nodes, "cut", **KEYS)
    assert both.ends() == [0, 0], both.text()
    assert [start["resumed_step"] for start in starts(runs, "cut")] == [None, saved[-1]]
    assert_same_history(runs, "cut", one_launcher)
