"""torchrun starts the ranks of a run again when one is killed: the end is that of a run that nobody disturbed."""
import json

import pytest
from history import content_hash
from killed_ranks import run_with_kills, torchrun_of_tests
from tiny_runs import TinyRuns, losses_by_step, starts

STEPS = 60
# On a busy machine a save that has not ended would let the next one be left out.
KEYS = {"training__log_interval": 1, "checkpoint__async": False}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    return TinyRuns(wmtp, tmp_path_factory.mktemp("torchrun"), steps=STEPS, every=5)


def test_two_kills_of_ranks_change_nothing(runs):
    runs.run("calm", ranks=2, **KEYS)
    launcher = [torchrun_of_tests(), "--standalone", "--no-python", "--max-restarts=3", "--nproc-per-node=2"]
    code, text = run_with_kills(runs, "killed", launcher, world=2, kills=2, **KEYS)
    assert code == 0, text
    found = starts(runs, "killed")
    assert [(start["source"], start["world"], start["restart_count"]) for start in found] == \
        [("torchrun", 2, count) for count in range(3)]
    steps = [start["resumed_step"] for start in found[1:]]
    assert 0 < steps[0] < steps[1] < STEPS
    assert content_hash(runs.checkpoint("killed", STEPS)) == content_hash(runs.checkpoint("calm", STEPS))
    assert losses_by_step(runs, "killed") == losses_by_step(runs, "calm")
    assert json.loads((runs.folder / "killed/last_exit.json").read_text())["code"] == 0
