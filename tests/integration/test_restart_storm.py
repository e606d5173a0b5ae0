"""A run that dies before every first save ends with 70 at its fourth start, whoever starts it again."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_runs import TinyRuns, environment, error_of, events, state_hash

DIES = "step.begin:nth=1=kill"


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("storm"), steps=12, every=5)
    runs.run("calm")
    return runs


def record(runs, name):
    return runs.save_dir(name) / "tiny.starts"


def assert_ended_by_the_storm(runs, name, text):
    last = json.loads((runs.folder / name / "last_exit.json").read_text())
    assert last["code"] == 70, last
    assert "3 starts in a row ended without a first checkpoint" in last["reason"]
    assert str(record(runs, name)) in text, "the message names the way out"
    assert len(json.loads(record(runs, name).read_text())["starts"]) == 3


def test_under_launch(runs):
    done = runs.run("launch", ranks=2, restarts=10, failpoint=DIES, code=70)
    assert_ended_by_the_storm(runs, "launch", done.stdout + done.stderr)
    assert done.stderr.count("starting all ranks again") == 3, done.stderr


def test_under_torchrun(runs, tmp_path):
    program = Path(sys.executable).with_name("torchrun")
    if not program.exists():
        pytest.skip("torchrun is not installed")
    hits = tmp_path / "hits"
    command = [program, "--standalone", "--no-python", "--nproc_per_node=2", "--max-restarts=5", *runs.command("torchrun")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(DIES, hits))
    assert done.returncode != 0
    assert_ended_by_the_storm(runs, "torchrun", done.stdout + done.stderr)
    # It starts again whatever the code is, but no later start reaches a step.
    assert len(hits.read_text().splitlines()) <= 6, hits.read_text()


def test_by_plain_starts_and_the_way_out(runs):
    """As a requeue does it: the same command in a new process."""
    for _ in range(3):
        runs.run("plain", failpoint=DIES, code=-9)
    for _ in range(2):
        done = runs.run("plain", failpoint=DIES, code=70)
        assert_ended_by_the_storm(runs, "plain", done.stdout + done.stderr)
    record(runs, "plain").unlink()
    runs.run("plain")
    assert not record(runs, "plain").exists()
    assert state_hash(runs.checkpoint("plain", 12)) == state_hash(runs.checkpoint("calm", 12))


def test_with_progress_there_is_no_storm(runs):
    """Nine deaths, three after each checkpoint and one at the very end of a save."""
    for _ in range(2):
        runs.run("progress", failpoint=DIES, code=-9)
    for first in (5, 10):
        runs.run("progress", failpoint="save.pointer.rename=kill", checkpoint__async=False, code=-9)
        assert max(runs.steps("progress")) == first
        for _ in range(3 if first == 5 else 2):
            runs.run("progress", failpoint=DIES, code=-9)
        if first == 5:
            message = error_of(runs.run("progress", failpoint=DIES, code=70))
            assert "a checkpoint newer than step 5" in message
            record(runs, "progress").unlink()
    done = runs.run("progress")
    assert events(done.stdout, "resumed")[0]["step"] == 10
    assert state_hash(runs.checkpoint("progress", 12)) == state_hash(runs.checkpoint("calm", 12))


def test_errors_that_blame_the_input_are_no_storm(runs):
    runs.run("wrong", training__max_steps=5)
    for _ in range(4):
        runs.run("wrong", training__lora__rank=2, code=78)
    for _ in range(4):  # numbers broken, on the rank that does not keep the list
        runs.run("wrong", ranks=2, training__max_bad_steps=1, failpoint="step.loss:rank=1=damage", code=17)
    done = runs.run("wrong")
    assert events(done.stdout, "resumed")[0]["step"] == 5


def test_another_configuration_is_another_try(runs):
    for _ in range(3):
        runs.run("changed", failpoint=DIES, code=-9)
    runs.run("changed", failpoint=DIES, code=-9, training__learning_rate=1e-3)
    runs.run("changed", training__learning_rate=1e-3)
