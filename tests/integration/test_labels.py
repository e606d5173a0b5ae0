"""What people call their runs, in all that a run leaves behind; and shapes that old configurations repeat."""
import json

import pytest
from tiny_runs import TinyRuns

HOSTILE = "<script>alert(1)</script> \u001b[2J and\na second line"


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("labels"), steps=2, every=2, lora=False)


@pytest.fixture(scope="module")
def labelled(runs):
    runs.run("labelled", experiment__description=HOSTILE, experiment__tags=["one", "two: <b>", "-"],
             dataset__name="demo <corpus>", checkpoint__export_on_finish="hf")
    return runs.folder / "labelled"


def test_labels_are_in_the_summary(labelled):
    assert json.loads((labelled / "summary.json").read_text())["labels"] == {
        "description": HOSTILE, "tags": ["one", "two: <b>", "-"], "dataset": "demo <corpus>", "reference": ""}


def test_labels_are_on_the_model_card(labelled):
    yaml = pytest.importorskip("yaml")
    front, card = (labelled / "final/README.md").read_text().split("---\n", 2)[1:]
    assert yaml.safe_load(front)["tags"] == ["wmtp", "one", "two: <b>", "-"]
    facts = card.split("## Configuration")[0]
    assert r"&lt;script&gt;alert(1)&lt;/script&gt; \u001b[2J and\na second line" in facts
    assert "- Data: demo &lt;corpus&gt;" in facts
    assert "<script>" not in facts and "\x1b" not in facts


def test_labels_are_in_every_form_of_the_report(wmtp, labelled):
    wmtp.run("report", labelled)
    page = (labelled / "report.html").read_text()
    assert "<td>one, two: &lt;b&gt;, -</td>" in page and "<script>" not in page
    text = wmtp.run("report", labelled, "--format", "text").stdout
    assert r"description: <script>alert(1)</script> \u001b[2J and\na second line" in text and "\x1b" not in text
    assert wmtp.json("report", labelled, "--format", "json")["runs"][0]["labels"]["dataset"] == "demo <corpus>"


def test_shapes_of_old_configurations_must_agree_with_the_files(runs, wmtp, labelled):
    shape = json.loads((labelled / "final/config.json").read_text())
    same = {"rope_theta": shape["rope_theta"], "norm_eps": shape["rms_norm_eps"],
            "intermediate_size": shape["intermediate_size"], "dim": shape["hidden_size"]}
    files = dict(models__policy__path=str(labelled / "final"), models__policy__init="pretrained")
    # Maps merge key by key: what the stage file says of the shape agrees as well.
    runs.run("agrees", models__policy__params=same, **files)
    for key, value in {"rope_theta": 5e5, "norm_eps": 1e-3, "intermediate_size": 999}.items():
        done = runs.run(f"other-{key}", models__policy__params={**same, key: value}, code=78, **files)
        assert f"models.policy.params.{key} is" in done.stdout and "the model's files say" in done.stdout


def test_validate_and_train_refuse_the_same_shapes(runs, wmtp):
    for params in ({"width": 3}, {"dim": 1.5}, {"norm_eps": "small"}, {"n_future_tokens": 2}):
        trained = runs.run("refused", models__policy__params=params, code=78)
        checked = wmtp.error("validate", "--config", runs.config, "--defaults", "none", "--override",
                             f"models.policy.params={json.dumps(params)}", code=78)
        key = f"models.policy.params.{next(iter(params))}: "
        assert key in trained.stdout and key in checked["message"]


def test_frozen_weights_are_rounded_to_the_dtype_that_is_asked_for(runs):
    """bf16 storage changes the numbers of a LoRA run on fp32 files; fp32 storage is what null does, to the bit."""
    base = dict(training__use_lora=True, checkpoint__export_on_finish="none")
    states = {}
    for dtype in ("null", "fp32", "bf16"):
        runs.run(f"stored-{dtype}", models__policy__dtype=dtype, **base)
        losses = [json.loads(line).get("train/loss") for line in (runs.folder / f"stored-{dtype}/metrics.jsonl").open()]
        states[dtype] = [loss for loss in losses if loss is not None]
    assert states["null"] == states["fp32"] != states["bf16"]
    assert states["bf16"] == pytest.approx(states["fp32"], rel=1e-2)  # a relative rounding of 2^-9 of every weight
