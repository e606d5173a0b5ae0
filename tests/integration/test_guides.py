"""The guides do what they say: all blocks of docs/guide_four_stages.md and docs/guide_lora_serving.md run as they stand and in their
order, on a small model and a few hundred rows; the memory in docs/guide_7b_4gpus.md is what `wmtp validate` plans."""
import json
import re
import shlex

import pytest
from doc_pages import ROOT, Page, environment
from small_llama import loss_in_transformers, save_small_llama
from transformers import AutoModelForCausalLM


@pytest.fixture(scope="module")
def folder(wmtp, tmp_path_factory):
    """What the guides assume: rows of both kinds, and a plain model."""
    folder = tmp_path_factory.mktemp("guides")
    wmtp.run("data", "demo", "--out", folder / "data", "--rows", "96")
    for name in ("tokenizer.json", "tokenizer_config.json", "text.txt"):
        (folder / "data" / name).unlink()
    save_small_llama(folder / "models/llama", (folder / "data/train.jsonl").read_text())
    (folder / "configs").symlink_to(ROOT / "configs")
    return folder


@pytest.fixture(scope="module")
def env(wmtp, folder):
    return environment(wmtp, XDG_CACHE_HOME=str(folder / "cache"))


def points(folder, run):
    return [json.loads(line) for line in (folder / f"runs/{run}/metrics.jsonl").open()]


def last(folder, run, name):
    return [point[name] for point in points(folder, run) if name in point][-1]


def rows_of(page, folder):
    """The rows that the page shows, which have the keys of the file that was trained on."""
    shown = [json.loads(line) for line in page.text("The rows").splitlines()]
    trained = [json.loads(line) for line in (folder / "data/train.jsonl").open()]
    assert all(set(row) <= set(trained[0]) for row in shown) and [row["is_correct"] for row in shown] == [True, False]


@pytest.fixture(scope="module")
def stages(folder, env):
    page = Page(ROOT / "docs/guide_four_stages.md", folder, env)
    rows_of(page, folder)
    page.said = {heading: page.run(heading) for heading in ("Baseline", "Critic", "Verifiable", "Rho1", "Compare", "Export")}
    page.names = {}
    page.generated = page.run_here("In transformers", 0, page.names)
    return page


def test_every_block_of_the_four_stages_was_run(stages):
    assert set(stages.blocks) == stages.done


def test_the_four_stages_trained_what_the_page_says(stages, folder):
    steps = {run: json.loads((folder / f"runs/{run}/summary.json").read_text())["step"] for run in ("baseline", "critic", "verifiable", "rho1")}
    assert min(steps.values()) >= 10, steps
    assert {"val/head0_loss", "val/head3_loss"} <= set().union(*points(folder, "baseline"))
    assert "48 correct, 0 incorrect" in stages.said["Baseline"]
    assert 0 <= last(folder, "critic", "val/pairwise_accuracy") <= 1
    assert last(folder, "verifiable", "weight/max") > last(folder, "verifiable", "weight/min")
    assert last(folder, "rho1", "rho1/head1_ratio") == pytest.approx(0.6, abs=0.01) and last(folder, "rho1", "rho1/head0_ratio") == 1
    header, first, *_ = map(json.loads, (folder / "weights.jsonl").open())
    assert header["step"] == 1 and len({round(weight, 6) for weight in first["weight"][0] if weight}) > 1
    page = (folder / "stages.html").read_text()
    assert all(run in page for run in steps)


def test_the_exported_model_is_the_trained_one_in_transformers(stages, folder):
    assert "Write a function that doubles a number." in stages.generated
    rows = [row for row in map(json.loads, (folder / "data/validation.jsonl").open()) if row["is_correct"]]
    loss, bound = loss_in_transformers(stages.names["model"], stages.names["tokenizer"], rows)
    reported = last(folder, "verifiable", "val/head0_loss")
    assert abs(loss - reported) < bound
    base = AutoModelForCausalLM.from_pretrained(folder / "models/llama")
    before, _ = loss_in_transformers(base, stages.names["tokenizer"], rows)
    assert before - reported > 3 * bound, "the base would pass as well"


@pytest.fixture(scope="module")
def lora(folder, env):
    page = Page(ROOT / "docs/guide_lora_serving.md", folder, env)
    page.run("Training")
    page.run("The adapter", 0)
    page.names = {}
    page.run_here("The adapter", 1, page.names)
    page.merged = page.run("One whole model")
    page.generated = page.run_here("In transformers", 0, page.names)
    return page


def test_the_merged_model_is_what_peft_merges_rounded_once(lora):
    """To bf16: by 2^-9 of a weight at most, and as much again for the order in which a few products of fp32 are added."""
    base = {name: weight.clone() for name, weight in lora.names["base"].state_dict().items() if name.endswith("base_layer.weight")}
    merged, theirs = lora.names["model"].float().state_dict(), lora.names["adapted"].merge_and_unload().state_dict()
    assert set(merged) == set(theirs) and len(base) >= 8
    for name, weight in theirs.items():
        assert ((merged[name] - weight).abs() <= 2**-8 * weight.abs()).all(), name
    moved = [(theirs[name.replace(".base_layer", "")] - weight).abs().gt(2**-7 * weight.abs()).any() for name, weight in base.items()]
    assert any(moved), "without the adapter it would be the same"
    assert "Write a function that doubles a number." in lora.generated


def test_every_block_about_lora_was_run_but_the_servers(lora, folder):
    assert set(lora.blocks) - lora.done == {("For a server", 0)}
    assert "read back" in lora.merged and (folder / "merged/model.safetensors").exists()


def test_the_memory_of_four_gpus_is_what_validate_plans(wmtp, folder):
    text = (ROOT / "docs/guide_7b_4gpus.md").read_text()
    demo, line = (shlex.split(command)[1:] for command in re.findall(r"^(wmtp (?:data demo|validate .*overri).*)$", text, re.M))
    wmtp.run(*demo, cwd=folder)
    env = {"CUDA_VISIBLE_DEVICES": ""}  # where there is a GPU, `auto` asks it
    rows = re.findall(r"^\| (none|`([\w.]+=\w+)`).* \| ([\d.]+) \|$", text, re.M)
    assert len(rows) >= 8
    for _, override, shown in rows:
        words = ["--json", *line, *(["--override", override] if override else [])]
        planned = json.loads(wmtp.run(*words, cwd=folder, env=env).stdout)
        assert f"{planned['parameters']:,}" in text or override
        assert round(planned["memory_bytes"] / 2**30, 1) == float(shown), override
