"""A run that two ranks saved goes on with one and with three, and under another strategy: the same samples in the same
order, so the same losses but for rounding, and the same counters."""
import json
import shutil

import pytest

from tiny_runs import TinyRuns, events, losses_by_step, metrics

CUT, END = 6, 12
TOLERANCE = 1e-5  # relative; rounding alone
# The same 12 samples of a step, whatever the number of ranks.
KEYS = {"training__global_batch_size": 12, "training__log_interval": 1, "training__eval_every_steps": 3,
        "data_sampling__n_samples": 40, "checkpoint__save_best": False}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """The straight run of two ranks, saved at the cut and at the end."""
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("ranks"), steps=END, every=CUT, lora=False)
    runs.run("straight", ranks=2, **KEYS)
    return runs


def state(runs, name):
    return json.loads((runs.checkpoint(name, END) / "trainer_state.json").read_text())


def series(runs, name):
    """Loss by step after the cut, and validation losses."""
    train = {step: values for step, values in losses_by_step(runs, name).items() if step > CUT}
    assert all(len(values) == 1 for values in train.values())
    validation = {point["step"]: point["val/loss"] for point in metrics(runs, name)
                  if "val/loss" in point and point["step"] > CUT}
    return {step: min(values) for step, values in train.items()}, validation


@pytest.mark.parametrize("ranks, strategy", [(1, "FULL_SHARD"), (3, "FULL_SHARD"), (2, "NO_SHARD")])
def test_goes_on(runs, ranks, strategy):
    name = f"{ranks}-{strategy}"
    runs.save_dir(name).mkdir(parents=True)
    shutil.copytree(runs.checkpoint("straight", CUT), runs.checkpoint(name, CUT))
    done = runs.run(name, ranks=ranks, distributed__fsdp__sharding_strategy=strategy, **KEYS)
    assert events(done.stdout, "resumed")[0]["step"] == CUT
    wanted, found = state(runs, "straight"), state(runs, name)
    for key in ("step", "epoch", "samples_seen", "tokens_seen", "cursor", "rng"):
        assert found[key] == wanted[key], key
    assert found["schedule"]["planned_steps"] == END
    assert found["optimizer"]["applied_updates"] == END
    assert found["layout"]["world_size"] == ranks and found["layout"]["strategy"] == strategy
    for of_straight, of_this in zip(series(runs, "straight"), series(runs, name)):
        assert of_straight and of_this == pytest.approx(of_straight, rel=TOLERANCE)


def test_other_samples_would_show(runs):
    """The control: another order of the data after the cut leaves the tolerance at every step."""
    runs.save_dir("other").mkdir(parents=True)
    shutil.copytree(runs.checkpoint("straight", CUT), runs.checkpoint("other", CUT))
    runs.run("other", ranks=2, data_sampling__seed=9, checkpoint__allow_data_change=True,
             checkpoint__allow_config_change=["data_sampling.seed"], **KEYS)
    losses, straight = series(runs, "other")[0], series(runs, "straight")[0]
    assert list(losses) == list(straight)
    assert all(abs(losses[step] - straight[step]) > 10 * TOLERANCE * straight[step] for step in straight)
    assert state(runs, "other")["cursor"] != state(runs, "straight")["cursor"]
