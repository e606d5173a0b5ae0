"""The end of an allocation, the time a stop may take, and whose lock it is when a job begins again."""
import json
import os
import signal
import time

import pytest

from tiny_runs import TinyRuns, error_of, events, starts, wait_for_hit

pytestmark = pytest.mark.serial

# Nothing is saved but at a stop, and the run does not end by itself.
ENDLESS = {"checkpoint__save_every_steps": 100000, "checkpoint__save_best": False, "training__max_steps": 100000,
           "training__eval_every_steps": None}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    return TinyRuns(wmtp, tmp_path_factory.mktemp("time_limit"), steps=4, every=2)


@pytest.fixture
def given(monkeypatch):
    """Sets variables of the run; those of a cluster the tests themselves run on are taken away."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "TORCHELASTIC_")) or name == "WMTP_STOP_AT":
            monkeypatch.delenv(name)
    return lambda **values: [monkeypatch.setenv(name, str(value)) for name, value in values.items()]


def last_exit(runs, name):
    return json.loads((runs.folder / name / "last_exit.json").read_text())


def test_the_time_limit_stops_and_saves_a_run_the_asked_time_before_it(runs, given):
    """A machine too slow to begin in time gets more of it."""
    for patience_s in (4, 15, 60):
        name = f"limit-{patience_s}"
        stop_at = int(time.time()) + patience_s
        given(WMTP_STOP_AT=stop_at + 1000)
        process = runs.start(name, runtime__stop_before_end_s=1000, **ENDLESS)
        text = process.communicate(timeout=120)[0]
        if process.returncode != 81:
            break
    assert process.returncode == 80, text
    assert time.time() >= stop_at and f"WMTP_STOP_AT={stop_at + 1000}, 1000 s before it" in text
    (saved,) = events(text, "saved")
    assert runs.steps(name) == [saved["step"]] and last_exit(runs, name)["code"] == 80


def test_a_limit_that_has_passed_begins_nothing(runs, given):
    """On all ranks alike: a minute before the end there is no time left to save in."""
    given(SLURM_JOB_END_TIME=int(time.time()) + 30)
    done = runs.run("late", ranks=2, code=81)
    assert "the time limit passed" in done.stderr and "SLURM_JOB_END_TIME" in done.stderr
    assert not runs.steps("late") and last_exit(runs, "late")["code"] == 81
    assert not (runs.folder / "late/metrics.jsonl").exists()


@pytest.mark.parametrize("name, value", [("WMTP_STOP_AT", "in two hours"), ("SLURM_JOB_END_TIME", "1e12")])
def test_a_limit_that_is_no_time_is_refused_by_name(runs, given, name, value):
    given(**{name: value})
    assert f"{name}={value}" in error_of(runs.run("refused", code=78))


def test_a_stop_whose_save_takes_longer_than_the_grace_ends_with_81(runs, given):
    log = runs.folder / "slow.hits"
    process = runs.start("slow", ranks=2, hits=log, runtime__grace_s=2, **ENDLESS,
                         failpoint="step.begin:nth=1+=sleep:30;save.shard.fsync:rank=1=sleep:60000")
    wait_for_hit(process, log, "step.begin")
    lock = runs.save_dir("slow") / "tiny.lock"
    taken = lock.stat().st_mtime_ns
    begun = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 81, text
    assert 2 <= time.monotonic() - begun < 30
    assert not runs.steps("slow")
    assert lock.stat().st_mtime_ns > taken, "no heartbeat of the lock"
    assert last_exit(runs, "slow")["code"] == 81 and "runtime.grace_s (2 s)" in last_exit(runs, "slow")["reason"]


def test_a_job_that_begins_again_takes_its_lock_and_another_does_not(runs, given):
    given(SLURM_JOB_ID=77)
    runs.run("requeued", "--max-steps", "2")
    lock = runs.save_dir("requeued") / "tiny.lock"
    lock.write_text("node7 1234 0123abcd 0.0 77\n")
    os.utime(lock, (time.time() - 11,) * 2)
    given(SLURM_JOB_ID=78, SLURM_RESTART_COUNT=1)
    said = error_of(runs.run("requeued", code=78))
    assert all(part in said for part in ("host node7", "pid 1234", "run 0123abcd", "job 77"))
    given(SLURM_JOB_ID=77)
    runs.run("requeued", ranks=2)
    first, second = starts(runs, "requeued")
    assert {"job": "77", "restart_count": 0, "source": "single", "world": 1, "resumed_step": None}.items() <= first.items()
    assert {"job": "77", "source": "launch", "world": 2, "resumed_step": 2}.items() <= second.items()
