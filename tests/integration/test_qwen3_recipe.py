"""docs/qwen3.md does what it says: all of its blocks run as they stand and in their order, against a cache of the Hub and data sets
of the test's own. What is made smaller is in the copy of the configuration, and one rank a node in place of eight."""
import json
import math
import re
import shlex
import subprocess

import pytest
import yaml
from doc_pages import ROOT, Page, ended, environment
from hub_cache import add_data_set, add_small_qwen3
from tiny_runs import state_hash, wait_for_hit
from two_nodes import ADDRESSES, TwoNodes, why_not

PAGE = ROOT / "docs/qwen3.md"
CONFIG = "configs/ntp/qwen3_0_6b.yaml"
# On a CPU 8192 tokens take seconds a step, and 1e-4 moves a model that knows nothing by little.
SMALLER = {"max_length: 8192": "max_length: 128", "learning_rate: 1e-4": "learning_rate: 1e-2"}
STEPS, WARM, PEAK, FLOOR = 100, 10, 1e-2, 1e-3
RUN, MODEL = "runs/qwen3-0.6b-text", "qwen3_0_6b"


class Recipe(Page):
    def values(self, name, run=RUN):
        lines = map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines())
        return {line["step"]: line[name] for line in lines if name in line}

    def state(self, run):
        return state_hash(self.folder / run / f"checkpoints/{MODEL}-{STEPS}steps")


@pytest.fixture(scope="module")
def page(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen3")
    wmtp.run("data", "demo", "--out", folder / "demo")
    text = (folder / "demo/text.txt").read_text()
    hub = folder / "huggingface/hub"
    add_small_qwen3(hub, text[:20000])
    lines, stories = text.splitlines(keepends=True), text.split("\n\n")
    add_data_set(folder, "Salesforce/wikitext", {"train": lines[:-600], "validation": lines[-600:]}, "wikitext-103-raw-v1")
    add_data_set(folder, "roneneldan/TinyStories", {"train": stories[:400], "validation": stories[400:420]})
    config = (ROOT / CONFIG).read_text()
    for shipped, smaller in SMALLER.items():
        assert config.count(shipped) == 1
        config = config.replace(shipped, smaller)
    (folder / CONFIG).parent.mkdir(parents=True)
    (folder / CONFIG).write_text(config + "runtime: {device: cpu, threads: 1, peak_tflops: 1}\n")
    (folder / "configs/defaults.yaml").symlink_to(ROOT / "configs/defaults.yaml")
    setup = subprocess.run([ROOT / "tools/setup", "--print-extra"], capture_output=True, text=True)
    assert setup.returncode == 0, setup.stderr
    env = environment(wmtp, PYTHONPATH=setup.stdout.strip(), HF_HOME=str(folder / "huggingface"))
    for variable in ("HF_HUB_CACHE", "WMTP_RUN_TOKEN"):
        env.pop(variable, None)
    return Recipe(PAGE, folder, env)


@pytest.fixture(scope="module")
def text(page):
    """The data as files."""
    return page.run("The text", 0, 1)


@pytest.fixture(scope="module")
def trained(page, text):
    """The run of the page, stopped soon after its 60th step and gone on with; the output of both starts."""
    hits = page.folder / "hits"
    # From there on the steps take so long that the stop file, which is looked for once a second, is made before the last one.
    first = page.start("Training", 0, WMTP_FAILPOINT="step.begin:nth=61+=sleep:400", WMTP_FAILPOINT_LOG=str(hits))
    wait_for_hit(first, hits, "step.begin")
    page.run("Stopping and going on", 0)
    return ended(first, 80), page.run("Stopping and going on", 1)


@pytest.fixture(scope="module")
def scored(page, trained):
    return [float(found) for found in re.findall(r"perplexity ([\d.]+);", page.run("Perplexity"))]


@pytest.fixture(scope="module")
def in_transformers(page, trained):
    page.run("In transformers", 0)
    return page.run_here("In transformers", 1)


@pytest.fixture(scope="module")
def found(page):
    return page.run("The model")


@pytest.fixture(scope="module")
def inspected(page, text):
    return page.run("The text", 2)


@pytest.fixture(scope="module")
def others(page, text):
    return page.run("Training", 2)


@pytest.fixture(scope="module")
def lora(page, text):
    return page.run("LoRA")


def test_the_model_is_found_in_the_cache_through_its_links(page, found):
    snapshot = next((page.folder / "huggingface/hub").glob("models--*/snapshots/*"))
    assert all(file.is_symlink() for file in snapshot.iterdir()) and str(snapshot) in found
    assert "qwen3: " in found and "2 blocks, 1 prediction heads" in found and "scanner qwen" in found
    assert page.wmtp("checkpoint", "inspect", snapshot) in found  # named by its path


def test_the_data_sets_become_text_in_blocks_of_one_length(page, text, inspected):
    assert (page.folder / "data/text/train.txt").read_text().startswith("# Write a function")
    lengths = re.findall(r"lengths in tokens: p50 (\d+), .*max (\d+);", inspected)
    assert lengths == [("128", "128")] * 2
    assert "data/text/train.jsonl (text)" in inspected and "rows: 400 " in inspected


def test_the_stopped_run_ends_as_one_that_nobody_stopped(page, trained):
    stopped, resumed = trained
    assert re.search(rf"Resumed from {MODEL}-[6-9]\dsteps \(saved by 1 rank, now 1\)", resumed), resumed
    folder = page.folder / RUN / "checkpoints"
    assert (folder / f"{MODEL}-50steps").is_dir() and (folder / f"{MODEL}-latest").read_text() == f"{MODEL}-{STEPS}steps\n"
    assert f"{MODEL}-{STEPS}steps" in resumed and "latest" in resumed  # the list
    page.wmtp("train", "--config", CONFIG, "--run-dir", "runs/whole")
    assert page.state(RUN) == page.state("runs/whole")


def test_the_rate_warms_up_and_falls_to_the_floor_by_a_cosine(page, trained):
    rates = page.values("train/learning_rate")
    assert set(rates) >= set(range(10, STEPS + 1, 10))
    for step, rate in rates.items():
        at = step - 1
        cosine = FLOOR + (PEAK - FLOOR) * (1 + math.cos(math.pi * (at - WARM) / (STEPS - WARM))) / 2
        assert rate == pytest.approx(PEAK * step / (WARM + 1) if at < WARM else cosine, rel=1e-6), step


def test_it_prints_the_lines_that_the_page_shows(page, trained):
    printed = "".join(trained)
    for shown in page.text("Training", 1).splitlines():
        pattern = re.escape(shown).replace(re.escape("..."), r"[\w.+-]+( s)?")
        assert re.search(f"^{pattern}$", printed, re.M), f"{shown}\nis not in\n{printed}"


def test_perplexities_of_the_run_of_score_and_of_transformers_agree(page, scored, in_transformers):
    before, after = scored
    assert after == page.values("val/perplexity")[STEPS] and after < before / 4
    counted = float(re.search(r"^perplexity ([\d.]+)$", in_transformers, re.M)[1])
    # One rounding of each weight, 2^-9, moves a loss of about 1 by less than that.
    assert counted == pytest.approx(after, rel=2**-7) and "The history of" in in_transformers


def test_all_gpus_and_offload_train(page, others):
    assert others.count("Training completed") == 2


def test_an_adapter_names_its_base_and_merges(page, lora):
    adapter = json.loads((page.folder / "runs/qwen3-lora/final/adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == "Qwen/Qwen3-0.6B" and "read back" in lora
    assert (page.folder / "qwen3-merged/model.safetensors").exists()


@pytest.fixture(scope="module")
def two_nodes(page, text):
    """The run on two nodes, whose second rank is killed in its 61st step, and its continuation by torchrun."""
    if reason := why_not():
        pytest.skip(f"no two nodes here: {reason}")
    hosts = page.folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} node{i}\n" for i, address in enumerate(ADDRESSES, 1)))
    page.run("Two nodes", 0)
    on_each = page.text("Two nodes", 1).replace("GPUS=8", "GPUS=1")
    with TwoNodes() as nodes:
        def start(node, line, **env):
            script = f"hostname node{node + 1}\n{on_each}\n{line}"
            return page.popen(nodes.command(node, ["unshare", "-u", "bash", "-euc", script], [(hosts, "/etc/hosts")]), **env)
        killed = [start(node, page.text("Two nodes", 2 + node), WMTP_FAILPOINT="step.begin:rank=1:nth=61=kill")
                  for node in range(2)]
        killed = [(process.communicate(timeout=300)[0], process.returncode) for process in killed]
        resumed = [ended(process) for process in [start(node, page.text("Two nodes", 4)) for node in range(2)]]
    return killed, resumed


def test_a_run_on_two_nodes_goes_on_after_a_kill_under_another_launcher(page, two_nodes):
    killed, resumed = two_nodes
    assert killed[0][1] == 75, killed[0][0]
    assert f"Resumed from {MODEL}-50steps (saved by 2 ranks, now 2)" in "".join(resumed), resumed
    page.wmtp("launch", "--nproc", 2, "--", "train", "--config", CONFIG, "--run-dir", "runs/two-ranks")
    assert page.state("runs/two-nodes") == page.state("runs/two-ranks")


def test_every_block_of_the_page_was_run(page, found, text, inspected, trained, others, scored, in_transformers, lora, two_nodes):
    page.text("Training", 1)  # the lines that are shown, which a test of their own compares
    assert set(page.blocks) == page.done


def spans(text):
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))]


def test_the_keys_of_the_page_are_keys_and_the_recipe_is_the_shipped_file(wmtp):
    keys = (ROOT / "tests/golden/config_keys.txt").read_text().split()
    sections = {key.partition(".")[0] for key in keys}
    page = PAGE.read_text()
    named = [span for span in spans(page) if span.partition(".")[0] in sections and " " not in span.partition(":")[0]]
    assert len(named) > 25
    for span in named:
        key = re.split("[:=]", span)[0]
        assert any(known == key or known.startswith(f"{key}.") for known in keys), span
    shipped = yaml.safe_load(wmtp.run("validate", "--no-check-paths", "--resolved", "--config", ROOT / CONFIG).stdout)
    rows = [line for line in page.partition("## The recipe")[2].partition("\nAll keys")[0].splitlines() if line.startswith("| ")]
    compared = 0
    for span in (span for row in rows for span in spans(row.split(" | ")[1]) if ": " in span and span.partition(".")[0] in sections):
        key, _, value = span.partition(": ")
        at, wanted = shipped, yaml.safe_load(value)
        for part in key.split("."):
            at = at[part]
        at = {name: at[name] for name in wanted} if isinstance(wanted, dict) else at
        assert at == wanted or key == "distributed.fsdp.cpu_offload", f"{span}: the file has {at}"
        compared += 1
    assert compared >= 12


def test_commands_of_the_page_name_the_shipped_file(page):
    words = [word for language, text in page.blocks.values() if language == "sh" for word in shlex.split(text, comments=True)]
    assert {word for word in words if word.endswith(".yaml")} == {CONFIG}
