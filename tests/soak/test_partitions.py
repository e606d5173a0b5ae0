"""A network of two nodes that breaks in a step, in a save and while the ranks meet, for both ways or for one: both sides
leave, none goes on alone, and mended it goes on as if nothing had been."""
import os
import signal
import time

import pytest
from history import content_hash
from launchers_on_nodes import NodeLaunchers
from tiny_runs import TinyRuns, children, losses_by_step, starts, wait_for
from two_nodes import TwoNodes, why_not

STEPS = 30
SLOW = "step.begin:nth=1+=sleep:100"
LEAVE_S = 20
# On a busy machine a save that has not ended would let the next one be left out.
KEYS = {"training__log_interval": 1, "checkpoint__async": False}


@pytest.fixture(scope="module")
def nodes():
    if reason := why_not():
        pytest.skip(f"no two nodes here: {reason}")
    with TwoNodes() as both:
        yield both


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("partitions"), steps=STEPS, every=5)
    made.run("calm", ranks=2, **KEYS)
    return made


def launchers(runs, nodes, name, *flags, failpoint=SLOW, **options):
    return NodeLaunchers(runs, nodes, name, *flags, failpoint=failpoint, **KEYS, **options)


def assert_goes_on_as_calm(runs, name):
    assert content_hash(runs.checkpoint(name, STEPS)) == content_hash(runs.checkpoint("calm", STEPS))
    assert losses_by_step(runs, name) == losses_by_step(runs, "calm")


CUTS = {"both": (TwoNodes.cut, TwoNodes.mend), "from0": (lambda nodes: nodes.mute(0), lambda nodes: nodes.unmute(0)),
        "from1": (lambda nodes: nodes.mute(1), lambda nodes: nodes.unmute(1))}


@pytest.mark.parametrize("moment", ["step", "save.shard.written", "save.vote.post", "save.rename.before"])
@pytest.mark.parametrize("way", CUTS)
def test_cut(runs, nodes, moment, way):
    name = f"{way}-{moment}"
    cut, mend = CUTS[way]
    hits = runs.folder / f"{name}.hits"
    of_save = "" if moment == "step" else f";{moment}:rank={int('rename' not in moment)}:nth=2=sleep:1500"
    both = launchers(runs, nodes, name, failpoint=SLOW + of_save, hits=hits)
    wait_for(lambda: (runs.steps(name) if moment == "step" else hits.exists() and moment in hits.read_text())
             or both.any_ended())
    cut(nodes)
    begun = time.monotonic()
    try:
        assert both.ends() == [75, 75], both.text()
        left_s = time.monotonic() - begun
        saved = max(runs.steps(name), default=None)
    finally:
        mend(nodes)
    assert left_s < LEAVE_S and saved != STEPS
    both = launchers(runs, nodes, name, failpoint=None)
    assert both.ends() == [0, 0], both.text()
    assert [start["resumed_step"] for start in starts(runs, name)] == [None, saved]
    assert_goes_on_as_calm(runs, name)
    print(f"\ncut {way} in {moment}: both sides left after {left_s:.1f} s, went on from step {saved}")


def test_cut_while_the_ranks_meet(runs, nodes):
    """They go on meeting where the cable is mended in time."""
    nodes.cut()
    both = launchers(runs, nodes, "meeting", failpoint=None)
    wait_for(lambda: both.any_ended() or all(children(process.pid) for process in both.processes))
    time.sleep(5)
    nodes.mend()
    assert both.ends() == [0, 0], both.text()
    assert_goes_on_as_calm(runs, "meeting")


def test_launchers_that_start_again_meet_again(runs, nodes):
    """Nobody starts anything by hand, and while the cable is cut nothing is saved."""
    both = launchers(runs, nodes, "again", "--max-restarts", "3")
    wait_for(lambda: runs.steps("again") or both.any_ended())
    nodes.cut()
    wait_for(lambda: both.text().count("starting all ranks again") == 2 or both.any_ended(), seconds=60)
    saved = runs.steps("again")
    time.sleep(5)
    assert runs.steps("again") == saved and not both.any_ended(), both.text()
    nodes.mend()
    assert both.ends() == [0, 0], both.text()
    assert [(start["restart_count"], start["resumed_step"]) for start in starts(runs, "again")] == [(0, None), (1, saved[-1])]
    assert_goes_on_as_calm(runs, "again")


def test_a_side_that_stands_still_keeps_its_run(runs, nodes):
    """The other side cannot begin a history of its own while the holder of the lock has not left; nor does the holder
    save once it wakes."""
    both = launchers(runs, nodes, "still")
    wait_for(lambda: runs.steps("still") or both.any_ended())
    holder = both.rank(0)
    os.kill(holder, signal.SIGSTOP)
    nodes.cut()
    try:
        saved = runs.steps("still")
        refused = runs.run("still", code=78, **KEYS)
        assert f"pid {holder}" in refused.stdout + refused.stderr
        os.kill(holder, signal.SIGCONT)
        assert both.ends() == [75, 75], both.text()
        assert runs.steps("still") == saved
    finally:
        nodes.mend()
    both = launchers(runs, nodes, "still", failpoint=None)
    assert both.ends() == [0, 0], both.text()
    assert_goes_on_as_calm(runs, "still")


def test_a_killed_node_ends_the_other_with_75(runs, nodes):
    both = launchers(runs, nodes, "killed")
    wait_for(lambda: runs.steps("killed") or both.any_ended())
    for pid in (both.rank(1), both.processes[1].pid):
        os.kill(pid, signal.SIGKILL)
    begun = time.monotonic()
    assert both.ends()[0] == 75, both.text()
    assert time.monotonic() - begun < LEAVE_S
