"""Stops of real runs: which signals are one notice, which leave at once, whom they reach, and saves they fall into."""
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from history import History, newest
from tiny_runs import TinyRuns, children, events, metrics, wait_for, wait_for_hit

pytestmark = pytest.mark.serial

SLOW = "step.begin:nth=1+=sleep:60"
NEVER = {"checkpoint__save_every_steps": 1000, "checkpoint__save_best": False}  # but at the end and at a stop


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    return TinyRuns(wmtp, tmp_path_factory.mktemp("stops"), steps=40, every=5)


@pytest.fixture(scope="module")
def calm(runs):
    """One process: the state at every step."""
    return History(runs, "calm", checkpoint__save_every_steps=1)


def start(runs, name, point="step.begin", failpoint="", **options):
    """A run of slow steps that has just met `point`."""
    log = runs.folder / f"{name}.hits"
    process = runs.start(name, failpoint=";".join(filter(None, [failpoint, SLOW])), hits=log, **options)
    wait_for_hit(process, log, point)
    return process, log


def send(pid, number):
    """BLOCKS until it was taken: two that wait at the same time would be one to the kernel already."""
    os.kill(pid, number)

    def taken():
        try:
            with open(f"/proc/{pid}/status") as file:
                masks = dict(line.split(":\t") for line in file if line.startswith(("ShdPnd", "State")))
        except (FileNotFoundError, ProcessLookupError):
            return True
        return masks["State"].startswith("Z") or not int(masks["ShdPnd"], 16) >> (number - 1) & 1
    wait_for(taken)


def rank_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return next(int(v[5:]) for v in file.read().split(b"\0") if v.startswith(b"RANK="))


def finish(process):
    text = process.communicate(timeout=120)[0]
    return process.returncode, text


def failed_saves(runs, name):
    return [point["checkpoint/failed_saves"] for point in metrics(runs, name) if "checkpoint/failed_saves" in point]


# ---- one notice or two

@pytest.mark.parametrize("numbers", [(signal.SIGUSR1, signal.SIGUSR1), (signal.SIGTERM, signal.SIGCONT, signal.SIGTERM)])
def test_repeated_at_once_it_is_one_notice(runs, calm, numbers):
    """As Slurm does it at a time limit: TERM, CONT, TERM."""
    name = "twice-" + numbers[0].name
    process, _ = start(runs, name, **NEVER)
    begun = time.monotonic()
    for number in numbers:
        send(process.pid, number)
    assert time.monotonic() - begun < 2, "too slow a machine to repeat a signal within two seconds"
    code, text = finish(process)
    assert code == 80, text
    assert len(events(text, "saved")) == 1
    assert not calm.complaints_of(newest(runs, name), told=events(text, "saved")[0]["step"])


def test_launched_ranks_take_a_repeated_notice_as_one(runs):
    process, _ = start(runs, "launched", ranks=2, restarts=3, **NEVER)
    for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGTERM):
        send(process.pid, number)
    code, text = finish(process)
    assert code == 80, text
    assert len(events(text, "saved")) == 1 and "starting all ranks again" not in text


@pytest.mark.parametrize("number, pause_s", [(signal.SIGTERM, 2.1), (signal.SIGUSR1, 2.1), (signal.SIGINT, 0)])
def test_a_second_notice_leaves_at_once(runs, calm, number, pause_s):
    """With the stop's save under way, which is then no checkpoint; the one before stays."""
    name = "second-" + number.name
    log = runs.folder / f"{name}.hits"
    process = runs.start(name, hits=log, checkpoint__save_best=False,
                         failpoint="stop.agreed=sleep:0;save.rename.before:nth=2=sleep:60000;" + SLOW)
    wait_for(lambda: runs.steps(name) or process.poll() is not None)
    begun = time.monotonic()
    send(process.pid, number)
    wait_for_hit(process, log, "save.rename.before")
    time.sleep(max(0, begun + pause_s - time.monotonic()))  # the length of the pause is what is tested
    again = time.monotonic()
    send(process.pid, number)
    code, text = finish(process)
    assert code == 81, text
    assert time.monotonic() - again < 30, "it waited for the save"
    assert "stop.agreed" in log.read_text()
    assert runs.steps(name) == [5] and not calm.complaints_of(newest(runs, name), told=5)


def test_launched_ranks_leave_at_a_second_interrupt(runs):
    """81 is a code that restarts, but not after a stop."""
    process, log = start(runs, "second-launched", ranks=2, restarts=3, failpoint="save.shard.half=sleep:60000", **NEVER)
    begun = time.monotonic()
    send(process.pid, signal.SIGINT)
    wait_for_hit(process, log, "save.shard.half")
    send(process.pid, signal.SIGINT)
    code, text = finish(process)
    assert code == 81 and "starting all ranks again" not in text, text
    assert time.monotonic() - begun < 30 and not runs.steps("second-launched")


def test_a_stop_whose_save_fails_is_81(runs):
    """One rank of two has no room: no checkpoint, and both know it."""
    process, log = start(runs, "unsaved", ranks=2, failpoint="save.shard.open:rank=1:nth=1+=enospc", **NEVER)
    send(process.pid, signal.SIGTERM)
    code, text = finish(process)
    assert code == 81, text
    assert "save.shard.open 1" in log.read_text()
    assert not runs.steps("unsaved")
    failed = failed_saves(runs, "unsaved")
    assert failed and failed == list(range(1, len(failed) + 1)), "it may try more than once"


def test_a_stop_of_a_run_that_still_starts_is_81(runs):
    """There is nothing to save yet; a request to save is no reason to leave."""
    log = runs.folder / "early.hits"
    process = runs.start("early", ranks=2, restarts=3, failpoint="comm.agree.post:rank=1=sleep:60000", hits=log)
    wait_for_hit(process, log, "comm.agree.post")
    begun = time.monotonic()
    send(process.pid, signal.SIGUSR2)
    send(process.pid, signal.SIGTERM)
    code, text = finish(process)
    assert code == 81 and time.monotonic() - begun < 30, text
    assert "starting all ranks again" not in text and not runs.steps("early")


# ---- whom it reaches

@pytest.mark.parametrize("number, rank", [(signal.SIGTERM, 1), (signal.SIGUSR1, 0)])
def test_a_signal_to_one_rank_stops_all_of_them(runs, number, rank):
    name = f"one-{number.name}"
    process, _ = start(runs, name, ranks=2, restarts=3, **NEVER)
    wait_for(lambda: len(children(process.pid)) == 2)
    send(next(pid for pid in children(process.pid) if rank_of(pid) == rank), number)
    code, text = finish(process)
    assert code == 80 and "starting all ranks again" not in text, text
    saved = events(text, "saved")[-1]["step"]
    assert runs.steps(name) == [saved] and saved < 40


# ---- in a save

# save.vote.* need two ranks: test_resume.py has one of them, tests/soak all points on each rank.
POINTS = ["save.stage.begin", "save.tmpdir.made", "save.shard.open", "save.shard.half", "save.shard.written",
          "save.shard.fsync", "save.shard.closed", "save.state.half", "save.manifest.half", "save.manifest.fsync",
          "save.dirs.fsync", "save.rename.before", "save.rename.after", "save.parent.fsync", "save.pointer.rename"]


def stopped_in_a_save(runs, point):
    """Exit code, output and the checkpoint that is left of a run that was told to stop at that point."""
    name = "term-" + point
    log = runs.folder / f"{name}.hits"
    process = runs.start(name, failpoint=f"{point}=sleep:700;{SLOW}", hits=log, checkpoint__save_best=False)
    wait_for_hit(process, log, point)
    send(process.pid, signal.SIGTERM)
    code, text = finish(process)
    return code, text, newest(runs, name)


def test_a_stop_in_a_save_tears_nothing(runs, calm):
    """What is left is the state of that step, so going on from it ends as if nothing had been: test_resume.py."""
    with ThreadPoolExecutor(3) as pool:
        ends = list(pool.map(lambda point: stopped_in_a_save(runs, point), POINTS))
    for point, (code, text, found) in zip(POINTS, ends):
        assert code == 80, f"{point}: {text}"
        told = max(event["step"] for event in events(text, "saved"))
        assert 5 <= told < 40 and max(found) == told, f"{point}: {text}"
        assert not calm.complaints_of(found, told), point
        assert not list(runs.save_dir("term-" + point).glob("*.bad-*")), point
