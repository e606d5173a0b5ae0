"""When a run saves, and what stays: the three intervals, the best one, and retention around it."""
import json
from datetime import datetime
from fractions import Fraction

import pytest

from tiny_runs import TinyRuns, events, metrics, state_hash

SAMPLES, BATCH = 24, 2  # of an epoch, and of a rank's step


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("intervals"), steps=14, every=1000)


def saved_steps(done):
    return [event["step"] for event in events(done.stdout, "saved")]


def validations(runs, name):
    return {point["step"]: point["val/loss"] for point in metrics(runs, name) if "val/loss" in point}


def pointer(runs, name, mark):
    path = runs.save_dir(name) / f"tiny-{mark}"
    return int(path.read_text().strip().removeprefix("tiny-").removesuffix("steps")) if path.exists() else None


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_part_of_an_epoch(runs, ranks):
    """After the first step that reaches the next 0.3 of an epoch: 7.2 samples, which no batch divides."""
    name = f"part{ranks}"
    done = runs.run(name, ranks=ranks, checkpoint__save_checkpoint_every=0.3, checkpoint__save_best=False,
                    checkpoint__save_total_limit=None, checkpoint__async=False)
    period, a_step = Fraction(3, 10) * SAMPLES, BATCH * ranks
    due = [step for step in range(1, 14) if step * a_step // period > (step - 1) * a_step // period]
    assert saved_steps(done) == due + [14] == runs.steps(name)
    assert pointer(runs, name, "latest") == pointer(runs, name, "final") == 14
    assert pointer(runs, name, "best") is None


def test_a_number_of_minutes(wmtp, runs):
    """0.6 s with steps of 0.1 s and more: never earlier, and once the time has come, two steps later at the latest."""
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    slow = {"failpoint": "step.begin:nth=1+=sleep:100", "checkpoint__save_best": False,
            "checkpoint__save_total_limit": None, "checkpoint__async": False, "training__max_steps": 26}
    done = runs.run("minutes", checkpoint__save_every_minutes=0.01, **slow)
    steps = saved_steps(done)
    assert steps[-1] == 26 and len(steps) >= 3
    assert max(b - a for a, b in zip([0] + steps, steps)) <= 9, steps
    manifests = [json.loads((runs.checkpoint("minutes", step) / "manifest.json").read_text()) for step in steps[:-1]]
    times = [datetime.fromisoformat(manifest["created"].replace("Z", "+00:00")).timestamp() for manifest in manifests]
    assert all(b - a > 0.6 for a, b in zip(times, times[1:])), times
    assert saved_steps(runs.run("no-minutes", **{**slow, "failpoint": None})) == [26]


BEST = {"training__max_steps": 12, "training__eval_every_steps": 3, "checkpoint__save_every_steps": 4,
        "checkpoint__save_total_limit": 2, "checkpoint__async": False}


def keys(mode):
    return {"checkpoint__best_metric": {"name": "val/loss", "mode": mode}, **BEST}


@pytest.fixture(scope="module")
def judged(runs):
    """A run for each way to judge, and what it told."""
    return {mode: runs.run(mode, **keys(mode)) for mode in ("max", "min")}


@pytest.mark.parametrize("mode, choose", [("max", max), ("min", min)])
def test_the_best_stays_though_it_is_old(runs, judged, mode, choose):
    losses = validations(runs, mode)
    assert list(losses) == [3, 6, 9, 12]
    best = choose(losses, key=losses.get)
    # The loss falls: the largest is the first and old when the run ends, the smallest is the last.
    assert best == (3 if mode == "max" else 12), losses
    records = [step for step in losses if losses[step] == choose(value for s, value in losses.items() if s <= step)]
    saved = saved_steps(judged[mode])
    assert saved == sorted({4, 8, 12, *records})
    assert pointer(runs, mode, "best") == best
    assert runs.steps(mode) == sorted({best, *saved[-2:]})
    told = json.loads((runs.checkpoint(mode, 12) / "trainer_state.json").read_text())["best"]
    assert told == {"metric": "val/loss", "value": losses[best], "step": best}


def test_a_restart_does_not_forget_the_best(wmtp, runs, judged):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs.run("killed", code=-9, failpoint="step.begin:nth=11=kill", **keys("max"))
    done = runs.run("killed", **keys("max"))
    assert events(done.stdout, "resumed")[0]["step"] == 8
    assert pointer(runs, "killed", "best") == 3 and runs.steps("killed") == runs.steps("max")
    for step in runs.steps("max"):
        assert state_hash(runs.checkpoint("killed", step)) == state_hash(runs.checkpoint("max", step))


def test_the_best_is_kept_without_any_interval(runs):
    """save_final off: the best is the last step of all, and still there."""
    done = runs.run("best-alone", **{**BEST, "checkpoint__save_every_steps": None, "checkpoint__save_final": False})
    assert saved_steps(done) == [3, 6, 9, 12]
    assert pointer(runs, "best-alone", "best") == 12 and pointer(runs, "best-alone", "final") is None


def test_a_metric_that_the_stage_lacks(runs):
    done = runs.run("lacks", code=78, checkpoint__best_metric={"name": "val/margin", "mode": "max"}, **BEST)
    assert "this stage has no val/margin" in done.stdout
