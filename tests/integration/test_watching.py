"""What a run notices by itself: ranks that hold the others up, and losses that stand out."""
import json
import os
import signal
import threading
import time

import pytest
from killed_ranks import rank_below
from tiny_runs import TinyRuns, metrics, wait_for

STEPS = 31


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("watching"), steps=STEPS, every=5, lora=False)


def events(runs, name, kind):
    return [point for point in metrics(runs, name) if point.get("event") == kind]


def test_slow_ranks_are_named_with_their_cause(wmtp, runs):
    """Rank 1 computes slowly, rank 2 is slow to hand its part of a collective over."""
    done = runs.run("slow", ranks=3, data_sampling__n_samples=48, tracking__tensorboard=True,
                    failpoint="step.forward.mid:rank=1:nth=1+=sleep:100;comm.collective.before:rank=2:nth=1+=sleep:4")
    found = {event["rank"]: event for event in events(runs, "slow", "straggler")}
    assert {rank: event["cause"] for rank, event in found.items()} == {1: "compute", 2: "communication"}
    for rank, event in found.items():
        assert event["step"] == 30 and event["host"] and event["fastest_rank"] == 0
        assert event["slowdown"] == pytest.approx(event["own_ms"] / event["fastest_ms"]) and event["slowdown"] > 4 / 3
        assert event["text"].startswith(f"rank {rank} on {event['host']} holds the others up: ")
        assert done.stdout.count(event["text"]) + done.stderr.count(event["text"]) == 1, "the log says it once"
    (point,) = [point for point in metrics(runs, "slow") if "perf/straggler_rank" in point]
    assert point["step"] == 30 and point["perf/straggler_rank"] in found
    assert point["perf/slowest_rank_speed"] == pytest.approx(1 / point["perf/straggler_slowdown"])
    (board,) = (runs.folder / "slow/tb").glob("*")
    assert board.read_bytes().count(b"event/straggler") == 2
    page = runs.folder / "report.html"
    wmtp.run("report", runs.folder / "slow", "--out", page)
    assert "Events: 2" in page.read_text() and "holds the others up" in page.read_text()


def test_a_rank_whose_data_comes_late_is_named(runs):
    runs.run("late", ranks=2, dataset__loader_threads=1, failpoint="data.batch.made:rank=1:nth=1+=sleep:120")
    assert [(event["rank"], event["cause"]) for event in events(runs, "late", "straggler")] == [(1, "data")]


class Throttled:
    """A process that is given a quarter of the time: stopped for 30 ms, left alone for 10, and so on."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self._throttle)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def _throttle(self):
        try:
            while not self.over.is_set():
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(0.03)
                os.kill(self.pid, signal.SIGCONT)
                time.sleep(0.01)
        except ProcessLookupError:  # the launcher has taken note of its end
            pass


def test_a_rank_whose_processor_is_taken_away_again_and_again_is_named(runs):
    """No failpoint: the time is gone wherever the rank is."""
    process = runs.start("throttled", ranks=3, data_sampling__n_samples=48, training__log_interval=1)
    wait_for(lambda: any("train/loss" in point for point in metrics(runs, "throttled")) or process.poll() is not None)
    with Throttled(rank_below(process.pid, 1)):
        text = process.communicate(timeout=120)[0]
    assert process.returncode == 0, text
    slowest = max(events(runs, "throttled", "straggler"), key=lambda event: event["slowdown"])
    assert (slowest["rank"], slowest["step"]) == (1, 30) and slowest["text"] in text


def test_equal_ranks_are_not_named(runs):
    """What both spend is mostly a pause of the same length, so that a busy machine makes no difference."""
    runs.run("equal", ranks=2, failpoint="step.forward.mid:nth=1+=sleep:60")
    assert not events(runs, "equal", "straggler")
    speeds = [point["perf/slowest_rank_speed"] for point in metrics(runs, "equal") if "perf/slowest_rank_speed" in point]
    assert len(speeds) == 1 and 0.75 <= speeds[0] <= 1


def test_one_process_has_nobody_to_compare_with(runs):
    runs.run("alone")
    assert not any("perf/slowest_rank_speed" in point for point in metrics(runs, "alone"))


def test_a_spike_is_told_and_a_resumed_run_tells_it_too(wmtp, runs):
    """Its verdict needs the losses before: a run that goes on from step 25 has them from its checkpoint."""
    done = runs.run("spike", tracking__tensorboard=True, failpoint="step.loss.spike:nth=29=damage")
    (event,) = events(runs, "spike", "loss_spike")
    assert event["step"] == 29 and event["losses"] == 28
    assert event["loss"] > 50 * event["median"] and event["z"] > 8
    assert event["text"] in done.stdout + done.stderr
    (point,) = [point for point in metrics(runs, "spike") if "train/loss_spikes" in point]
    assert point["step"] == 29 and point["train/loss_spikes"] == 1 and point["train/loss_spike_z"] == event["z"]
    (board,) = (runs.folder / "spike/tb").glob("*")
    assert b"event/loss_spike" in board.read_bytes()
    assert f"step 29: {event['text']}" in wmtp.run("report", runs.folder / "spike", "--format", "text").stdout

    runs.run("resumed", code=-9, checkpoint__async=False, failpoint="step.begin:nth=27=kill")
    runs.run("resumed", failpoint="step.loss.spike:nth=4=damage")  # of this start: step 29
    (again,) = events(runs, "resumed", "loss_spike")
    assert {**again, "time": 0} == {**event, "time": 0}
    states = [json.loads((runs.checkpoint(name, STEPS) / "trainer_state.json").read_text())["loss_watch"]
              for name in ("spike", "resumed")]
    assert states[0] == states[1] and len(states[0]["recent"]) == STEPS and states[0]["spikes"] == 1


def test_a_spike_with_stop_ends_all_ranks_with_17_and_earlier_checkpoints_stay(runs):
    done = runs.run("stop", ranks=2, code=17, failpoint="step.loss.spike:nth=28=damage", checkpoint__async=False,
                    runtime__loss_spike={"action": "stop"})
    assert "the loss of step 28 is" in done.stdout + done.stderr and "its samples are" in done.stdout + done.stderr
    assert runs.steps("stop") == [15, 20, 25]
    assert json.loads((runs.folder / "stop/last_exit.json").read_text())["code"] == 17
    assert [event["step"] for event in events(runs, "stop", "loss_spike")] == [28]
