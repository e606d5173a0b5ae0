"""`wmtp plan`: what it answers, what each flag changes of it, and that what it proposes fits, validates and trains."""
import html.parser
import json
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/sizing.md"
BEGIN, END = "<!-- wmtp plan --tables -->\n", "<!-- end of the tables -->\n"
GIB = 2**30


@pytest.fixture(scope="module")
def desk(wmtp, tmp_path_factory):
    """A folder with configs/ and the demo corpus, as the shipped configurations want it."""
    folder = tmp_path_factory.mktemp("plan")
    shutil.copytree(ROOT / "configs", folder / "configs")
    wmtp.run("data", "demo", "--out", "demo", "--rows", "120", cwd=folder)
    return folder


@pytest.fixture
def plan(wmtp, desk):
    def ask(*words, **options):
        lines = wmtp.json_lines("plan", "--no-calibrate", *words, cwd=desk, **options)
        found = [line for line in lines if line["type"] == "plan"]
        assert len(found) == 1, lines
        return found[0]

    return ask


MICRO = ["--config", "configs/micro/baseline.yaml"]
SEVEN = ["--model", "llama-2-7b", "--gpu", "h100"]


def test_a_configuration_is_planned_as_validate_plans_it(wmtp, desk, plan):
    known = [line for line in wmtp.json_lines("validate", *MICRO, cwd=desk) if line["type"] == "config"][0]
    line = plan(*MICRO)
    assert line["memory"]["needed_bytes"] == known["memory_bytes"] and line["memory"]["limit_bytes"] == known["memory_limit_bytes"]
    assert line["trained_parameters"] == known["trained_parameters"] and line["steps"] == known["steps"] == 15
    assert line["fits"] and line["device"] == "cpu" and line["speed"]["from"] == "estimated"
    assert line["hours"] == pytest.approx(15 * line["speed"]["step_s"] / 3600)
    assert sum(row["bytes"] for row in line["memory"]["rows"]) == line["memory"]["total_bytes"]
    assert line["speed"]["basis"] and line["flops_per_token"] > 0
    assert sum(part["seconds"] for part in line["speed"]["parts"]) == pytest.approx(line["speed"]["step_s"])


def test_every_flag_changes_the_answer(plan, desk):
    base = plan(*SEVEN)
    assert not base["fits"] and base["world_size"] == 1 and base["max_length"] == 2048 and base["hours"] is None
    assert plan(*SEVEN, "--batch", 4)["needed_bytes"] > base["needed_bytes"] > plan(*SEVEN, "--seq", 512)["needed_bytes"]
    lora = plan(*SEVEN, "--lora", 8)
    assert lora["fits"] and lora["trained_parameters"] < base["trained_parameters"] == base["parameters"]
    many = plan(*SEVEN, "--world-size", 16)
    assert many["fits"] and many["needed_bytes"] < base["needed_bytes"] and many["ranks_per_node"] == 8
    assert plan(*SEVEN, "--world-size", 16, "--ranks-per-node", 4)["ranks_per_node"] == 4
    more = plan(*SEVEN, "--memory-gib", 200)
    assert more["fits"] and more["memory"]["limit_bytes"] == 200 * GIB
    other = plan("--model", "llama-2-7b", "--gpu", "h200", "--lora", 8)
    assert other["speed"]["from"] == "measured table" and lora["speed"]["from"] == "estimated"
    assert other["memory"]["limit_bytes"] > lora["memory"]["limit_bytes"]
    short = plan(*SEVEN, "--override", "distributed.fsdp.cpu_offload=true")
    assert short["memory"]["host_bytes"] > 0 == base["memory"]["host_bytes"]
    steps = plan(*MICRO, "--gpu", "h100", "--price-per-gpu-hour", 2.5)
    assert steps["cost"] == pytest.approx(2.5 * steps["hours"])
    missing = ["--config", "configs/micro/baseline.yaml", "--override", "dataset.train=nowhere.jsonl"]
    assert plan(*missing, "--no-check-paths")["steps"] == 60
    assert plan(*MICRO, "--defaults", "none")["fits"]


def test_calibration_is_of_this_machine(wmtp, desk):
    line = [one for one in wmtp.json_lines("plan", *MICRO, cwd=desk) if one["type"] == "plan"][0]
    assert line["speed"]["from"] == "calibrated here" and line["speed"]["tokens_per_s"] > 0


def test_choices_stand_side_by_side(plan):
    choices = plan(*SEVEN, "--world-size", 16)["choices"]
    names = {group: [one["name"] for one in choices if one["choice"] == group]
             for group in ("recompute", "strategy", "precision", "float8", "training")}
    assert names["recompute"] == ["none", "light", "block"] and names["training"] == ["full", "LoRA, rank 8"]
    assert names["strategy"] == ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD"] and len(names["precision"]) == 6
    assert names["float8"] == ["off", "tensorwise", "rowwise"]
    needed = {one["name"]: one["needed_bytes"] for one in choices}
    assert needed["none"] > needed["light"] > needed["block"] and needed["NO_SHARD"] > needed["HYBRID_SHARD"] > needed["FULL_SHARD"]
    assert all(one["fits"] == (one["tokens_per_s"] is not None) for one in choices)


def test_a_sweep_has_all_combinations_with_the_best_first(plan):
    line = plan("--model", "qwen3-0.6b", "--gpu", "h200", "--sweep", "batch_size=1,8", "--sweep", "world_size=1,2",
                "--sweep", "training.optimizer.precision=fp32,int8", "--sweep", "distributed.fsdp.param_dtype=bf16,fp32",
                "--override", "training.float8=rowwise")  # which takes bf16 only
    rows = line["sweep"]
    assert len(rows) == 16 and sum("refused" in row for row in rows) == 8
    speeds = [row["tokens_per_s"] for row in rows if row.get("fits")]
    assert speeds == sorted(speeds, reverse=True) and rows[0]["values"]["world_size"] == "2"


FLOAT8 = "training.float8=tensorwise"
MTP = ["--model", "llama-mtp-7b", "--batch", 4, "--seq", 2048]


@pytest.mark.parametrize(("gpu", "title", "capability"), [("a100-80", "NVIDIA A100 80GB", "8.0"), ("l40s", "NVIDIA L40S", "8.9")])
def test_a_named_gpu_is_refused_what_a_run_there_is(wmtp, plan, desk, gpu, title, capability):
    words = ["--model", "qwen3-0.6b", "--gpu", gpu]
    error = wmtp.error("plan", *words, "--override", FLOAT8, code=78, cwd=desk)
    fact = f"training.float8: tensorwise needs a GPU of compute capability 9.0 or newer, and {title} has {capability}"
    assert fact in error["message"]
    line = plan(*words, "--sweep", "training.float8=off,tensorwise,rowwise", "--sweep", "runtime.attention=auto,cudnn", "--choose")
    ran = [row["values"] for row in line["sweep"] if "refused" not in row]
    assert ran == [{"training.float8": "off", "runtime.attention": "auto"}]
    assert sum(fact in row.get("refused", "") for row in line["sweep"]) == 2
    assert sum("10.x" in row.get("refused", "") and title in row["refused"] for row in line["sweep"]) == 1
    assert line["chosen"]["sized"] == 1 and "float8: tensorwise" not in line["chosen"]["yaml"]
    assert not any(one["choice"] == "float8" for one in line["choices"])


@pytest.mark.parametrize("gpu", ["h100", "b200"])
def test_a_named_gpu_of_compute_capability_9_takes_float8(plan, gpu):
    line = plan("--model", "qwen3-0.6b", "--gpu", gpu, "--override", FLOAT8, "--override", "runtime.attention=cudnn")
    assert line["fits"] and line["speed"]["from"] == "estimated"


def test_float8_is_faster_below_its_floor_and_says_that_it_is_estimated(wmtp, plan, desk):
    words = [*MTP, "--gpu", "h200"]
    bf16 = plan(*words, "--sweep", "training.float8=off,tensorwise", "--sweep", "training.optimizer.precision=bf16_sr,int8")
    float8 = plan(*words, "--override", FLOAT8)
    assert bf16["speed"]["from"] == "measured table" and "never measured" not in bf16["speed"]["basis"]
    assert float8["speed"]["from"] == "estimated" and "never measured: products in float8" in float8["speed"]["basis"]
    assert bf16["speed"]["tokens_per_s"] < float8["speed"]["tokens_per_s"] < 23_500
    for row in bf16["sweep"]:
        guessed = "tensorwise" in row["values"].values() or "int8" in row["values"].values()
        assert row["speed_from"] == ("estimated" if guessed else "measured table"), row
        assert row["tokens_per_s"] > 10_000, row
    text = wmtp.run("plan", *words, cwd=desk).stdout
    assert re.search(r"float8 +tensorwise .*\d \(estimated\)$", text, re.M) and re.search(r"float8 +off \* .*\d$", text, re.M)


@pytest.mark.parametrize("words", [
    [*SEVEN, "--batch", 16], ["--model", "llama-2-13b", "--gpu", "a100-40", "--world-size", 2],
    ["--model", "small", "--batch", 32, "--gpu", "cpu", "--memory-gib", "2"],
    [*MICRO, "--memory-gib", "0.05", "--override", "training.batch_size=64"]])
def test_advice_fits_when_it_is_followed(plan, words):
    line = plan(*words)
    assert not line["fits"] and line["advice"]["changes"]
    overrides = line["advice"]["overrides"]
    assert overrides, line["advice"]
    followed = plan(*words, *[word for one in overrides for word in ("--override", one)])
    assert followed["fits"] and followed["advice"] is None
    saved = line["advice"]["changes"][0]
    alone = plan(*words, *[word for one in saved["overrides"] for word in ("--override", one)])
    assert alone["needed_bytes"] == saved["needed_bytes"] == line["needed_bytes"] - saved["saves_bytes"]


def test_more_ranks_that_are_advised_fit(plan):
    words = ["--model", "llama-2-70b", "--gpu", "h100", "--world-size"]
    line = plan(*words, 2)
    overrides = [word for one in line["advice"]["world_overrides"] for word in ("--override", one)]
    assert not line["fits"] and plan(*words, line["advice"]["world_size"], *overrides)["fits"]


def test_what_is_chosen_validates_and_trains(wmtp, desk, plan):
    config = ["--config", "configs/micro/baseline.yaml"]
    chosen = plan(*config, "--world-size", 2, "--choose", "--out", "configs/micro/chosen.yaml")["chosen"]
    assert chosen["fits"] and chosen["batch_size"] * chosen["gradient_accumulation_steps"] == 8
    text = (desk / "configs/micro/chosen.yaml").read_text()
    assert 'extends: "baseline.yaml"\n' in text and "\ndistributed:\n" in text and chosen["yaml"] == text
    mine = ["--config", "configs/micro/chosen.yaml"]
    assert wmtp.run("validate", *mine, "--world-size", 2, cwd=desk).stdout.startswith("OK baseline")
    wmtp.run("launch", "--nproc", 2, "--", "train", *mine, "--max-steps", 2, "--override", "training.log_interval=1",
             "--override", "training.eval_at_start=false", cwd=desk)
    points = [json.loads(line) for line in (desk / "runs/micro-baseline/metrics.jsonl").open()]
    assert sum("train/loss" in point for point in points) == 2
    section = wmtp.run("plan", "--no-calibrate", *config, "--choose", cwd=desk).stdout
    assert "extends" not in section and "These keys are to stand in" in section
    for key in ("sharding_strategy", "activation_checkpointing", "prefetch", "backend", "step_timeout_s", "batch_size"):
        assert f"{key}:" in section


def test_nothing_that_fits_is_nothing_to_choose(wmtp, desk):
    error = wmtp.error("plan", *SEVEN, "--choose", code=78, cwd=desk)
    assert "nothing that was looked at fits" in error["message"] and "--world-size" in error["hint"]


class Checker(html.parser.HTMLParser):
    """Every element that opens is closed in its order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_has_no_scripts(wmtp, desk):
    hostile = "models/<b>&x"
    shutil.copytree(desk / "demo", desk / hostile, dirs_exist_ok=True)
    (desk / hostile / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 256, "rope_theta": 1e4, "hidden_act": "silu"}))
    done = wmtp.run("plan", "--no-calibrate", "--model", hostile, "--override", "models.policy.init=random", "--gpu", "h100",
                    "--html", "plan.html", "--sweep", "batch_size=1,2", cwd=desk)
    assert "with one choice made otherwise" in done.stdout and hostile in done.stdout
    text = (desk / "plan.html").read_text()
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open and checker.seen.count("table") == 4 and checker.seen.count("rect") > 6
    assert "script" not in checker.seen and "b" not in checker.seen and "models/&lt;b&gt;&amp;x" in text
    assert not re.search(r"https?://", text)


@pytest.mark.parametrize(("words", "message", "hint"), [
    ([], "neither --config nor --model", "wmtp plan --model"),
    (["--model", "llama-2-7b", "--gpu", "h20"], "h20", "h200"),
    (["--model", "llama-2-7b", "--gpu", "h200", "--sweep", "recompte=none"], "there is no key recompte", "did you mean recompute?"),
    (["--model", "llama-2-7", "--gpu", "h200"], "llama-2-7", "llama-2-7b"),
    ([*MICRO, "--override", "dataset.train=nowhere.jsonl"], "nowhere.jsonl", ""),
    ([*MICRO, "--batch", "4"], "--model", ""),
    ([*MICRO, "--override", "runtime.device=cuda"], "cuda", "--gpu"),
])
def test_wrong_questions_are_named(wmtp, desk, words, message, hint):
    done = wmtp.run("--json", "plan", "--no-calibrate", *words, check=False, cwd=desk)
    assert done.returncode == 78, done.stdout + done.stderr
    error = [json.loads(line) for line in done.stdout.splitlines()][-1]
    assert message in error["message"] and hint in error["message"] + error["hint"]


def test_docs_have_the_tables_that_the_program_prints(wmtp):
    tables = wmtp.run("plan", "--tables").stdout
    assert PAGE.read_text().split(BEGIN)[1].split(END)[0] == tables, "put the output of `wmtp plan --tables` there"
