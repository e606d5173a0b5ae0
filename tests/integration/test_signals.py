"""Signals of frozen models: computed once; the next run reads them, loads no model and trains alike, to the bit."""
import json
import re
import shutil

import pytest
import yaml

ROWS = 20
STAGES = {
    "rho1": {"models": {"reference": {"path": "ref"}}, "training": {"rho1": {"k_percent": 0.6}}},
    "verifiable": {"models": {"value_model": {"checkpoint_path": "value"}},
                   "training": {"value": {"source": "model"}, "td": {"mode": "gae"}}},
}


def config(stage, **sections):
    base = {
        "experiment": {"name": stage, "stage": stage},
        "models": {"policy": {"path": "micro", "tokenizer_path": "demo", "init": "random", "dtype": "fp32"}},
        "dataset": {"train": "train.jsonl", "validation": "validation.jsonl", "max_length": 96},
        "training": {"batch_size": 4, "n_epochs": 1, "learning_rate": 1e-3, "log_interval": 1},
        "checkpoint": {"save_final": False, "save_best": False},
        "runtime": {"device": "cpu", "cache_dir": "cache", "threads": 1},
    }
    for name, section in sections.items():
        base.setdefault(name, {}).update(section)
    return base


class Place:
    """A folder with data, a reference model and a critic, in which runs are made."""

    def __init__(self, wmtp, folder):
        self.wmtp, self.folder = wmtp, folder
        wmtp.run("data", "demo", "--out", "demo", cwd=folder)
        for name, count in (("train", ROWS), ("validation", 6)):
            lines = (folder / f"demo/{name}.jsonl").read_text().splitlines(keepends=True)
            (folder / f"{name}.jsonl").write_text("".join(lines[:count]))
        self.train("ref-run", config("baseline", training={"max_steps": 2}))
        self.train("value-run", config("critic", training={"max_steps": 2, "backbone_frozen": True,
                                                           "value_head": {"learning_rate": 0.01},
                                                           "value_loss": {"type": "mse", "bias_init": 0.5}}))
        shutil.copytree(folder / "ref-run/final", folder / "ref")
        shutil.copytree(folder / "value-run/final", folder / "value")

    def train(self, run, settings, ranks=1):
        (self.folder / f"{run}.yaml").write_text(yaml.safe_dump(settings))
        launch = [] if ranks == 1 else ["launch", "--nproc", ranks, "--"]
        done = self.wmtp.run(*launch, "train", "--config", f"{run}.yaml", "--run-dir", run, cwd=self.folder, timeout=600)
        return done.stderr + done.stdout

    def stage(self, run, stage, ranks=1, **more):
        settings = config(stage, **STAGES[stage])
        for name, section in more.items():
            settings.setdefault(name, {}).update(section)
        return self.train(run, settings, ranks)

    def metrics(self, run):
        """Every number that the arithmetic decides, by step."""
        found = {}
        for line in (self.folder / run / "metrics.jsonl").read_text().splitlines():
            entry = json.loads(line)
            values = {k: v for k, v in flat(entry) if re.match(r"(train|val|rho1|td|weight|value)/", k)}
            found.setdefault(entry.get("step"), {}).update(values)
        assert any("train/loss" in values for values in found.values()), found
        return found


def flat(entry):
    for key, value in entry.items():
        if isinstance(value, dict):
            yield from flat(value)
        else:
            yield key, value


@pytest.fixture(scope="module")
def place(wmtp, tmp_path_factory):
    return Place(wmtp, tmp_path_factory.mktemp("signals"))


@pytest.mark.parametrize("stage", STAGES)
def test_second_run_loads_no_frozen_model(place, stage):
    off = place.stage(f"{stage}-off", stage, training={"signal_cache": False})
    assert "[signals]" not in off
    first = place.stage(f"{stage}-1", stage)
    assert f"0 of {ROWS} rows of the training set" in first and "is not loaded" not in first
    second = place.stage(f"{stage}-2", stage)
    assert f"{ROWS} of {ROWS} rows of the training set" in second and "6 of 6 rows of the validation set" in second
    assert "is not loaded" in second
    assert place.metrics(f"{stage}-1") == place.metrics(f"{stage}-off")
    assert place.metrics(f"{stage}-2") == place.metrics(f"{stage}-1")
    weights = [(place.folder / f"{stage}-{run}/final/model.safetensors").read_bytes() for run in ("off", 1, 2)]
    assert weights[0] == weights[1] == weights[2]


def parts(place):
    return sorted(place.folder.glob("cache/signals/*/part-*.wsig"), key=lambda path: path.stat().st_size)


def test_what_is_missing_is_computed_again(place):
    place.stage("rho1-whole", "rho1")
    whole = {path: path.read_bytes() for path in parts(place)}
    for path, content in whole.items():
        path.write_bytes(content[: len(content) * 2 // 3])  # torn in the middle of a row
    third = place.stage("rho1-torn", "rho1")
    cached = int(re.search(rf"(\d+) of {ROWS} rows of the training set", third)[1])
    assert 0 < cached < ROWS and "is not loaded" not in third
    assert place.metrics("rho1-torn") == place.metrics("rho1-whole")
    assert "is not loaded" in place.stage("rho1-again", "rho1")
    assert len(parts(place)) > len(whole)


def test_ranks_share_the_cache(place):
    place.stage("rho1-first", "rho1")
    alone = place.stage("rho1-alone", "rho1")
    together = place.stage("rho1-two", "rho1", ranks=2, models={"reference": {"path": "ref", "placement": "shard"}})
    assert "is not loaded" in alone and "is not loaded" in together
    shutil.rmtree(place.folder / "cache/signals")
    again = place.stage("rho1-two-live", "rho1", ranks=2, models={"reference": {"path": "ref", "placement": "shard"}})
    assert f"0 of {ROWS} rows" in again
    live, cached = place.metrics("rho1-two-live"), place.metrics("rho1-two")
    for step, values in live.items():  # other shapes computed those on disk
        for name, value in values.items():
            assert value == pytest.approx(cached[step][name], rel=1e-4, abs=1e-5), (step, name)
    assert "is not loaded" in place.stage("rho1-alone-after", "rho1")


def test_another_reference_is_another_cache(place):
    place.stage("rho1-before", "rho1")
    file = place.folder / "ref/model.safetensors"
    content = bytearray(file.read_bytes())
    content[-2] ^= 1  # one bit of one weight
    file.write_bytes(content)
    assert f"0 of {ROWS} rows" in place.stage("rho1-changed", "rho1")
