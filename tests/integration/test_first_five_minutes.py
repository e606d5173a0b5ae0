"""The first five minutes: someone who knows only the README trains on own rows, stops, goes on, looks at the report and loads the
result in transformers. The commands are taken out of the README, so that it and this test cannot drift apart."""
import json
import re
import shlex
import signal

import pytest
import yaml
from doc_pages import ROOT, Page, ended, environment
from small_llama import CHATML, loss_in_transformers, save_small_llama, sums, write_rows
from tiny_runs import state_hash, wait_for_hit
from transformers import AutoModelForCausalLM

SECTION, NUM_STEPS, STOPPED_AT = "Your own data", 60, 20


class Newcomer(Page):
    """Types the lines of the README in a folder that has the model and the rows it speaks of, and nothing else."""

    def __init__(self, folder, env):
        super().__init__(ROOT / "README.md", folder, env)
        self.commands = [shlex.split(line, comments=True) for line in self.text(SECTION, 0).splitlines()]
        self.init, self.train, again, self.report = self.commands
        assert self.train == again, "the same command goes on"

    def type(self, words):
        return ended(self.popen(words))

    def stop_in_the_middle(self):
        """Ctrl-C while it trains; from there on the steps take so long that it is not at the end before it looks."""
        hits = self.folder / "hits"
        process = self.popen(self.train, WMTP_FAILPOINT=f"step.begin:nth={STOPPED_AT}+=sleep:100", WMTP_FAILPOINT_LOG=str(hits))
        wait_for_hit(process, hits, "step.begin")
        process.send_signal(signal.SIGINT)
        return ended(process, 80)

    def metrics(self):
        return [json.loads(line) for line in (self.folder / "runs/mine/metrics.jsonl").open()]


@pytest.fixture(scope="module")
def newcomer(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("newcomer")
    rows = list(sums(0, 984))
    write_rows(folder / "train.jsonl", rows[:960])
    write_rows(folder / "validation.jsonl", rows[960:])
    save_small_llama(folder / "models/llama", "\n".join(CHATML.format(**row) + row["output"] for row in rows))
    newcomer = Newcomer(folder, environment(wmtp, XDG_CACHE_HOME=str(folder / "cache")))
    newcomer.type(newcomer.init)
    newcomer.stopped = newcomer.stop_in_the_middle()
    newcomer.resumed = newcomer.type(newcomer.train)
    newcomer.reported = newcomer.type(newcomer.report)
    newcomer.names = {}
    newcomer.run_here(SECTION, 1, newcomer.names)
    return newcomer


def test_five_commands_are_enough(newcomer):
    languages = [language for (heading, _), (language, _) in newcomer.blocks.items() if heading == SECTION]
    assert languages == ["sh", "python"] and len(newcomer.commands) + 1 <= 5


def test_the_resumed_run_is_one_history(newcomer):
    [step] = map(int, re.findall(r"Resumed from llama-(\d+)steps", newcomer.resumed))
    assert STOPPED_AT <= step < NUM_STEPS
    assert [point["step"] for point in newcomer.metrics() if point.get("event") == "resume"] == [step]
    summary = json.loads((newcomer.folder / "runs/mine/summary.json").read_text())
    assert summary["status"] == "completed" and summary["step"] == NUM_STEPS
    newcomer.type([*newcomer.train, "--run-dir", "runs/whole"])  # which nobody stopped
    run, whole = (newcomer.folder / f"runs/{name}/checkpoints/llama-{NUM_STEPS}steps" for name in ("mine", "whole"))
    assert state_hash(run) == state_hash(whole)


def test_the_report_is_a_page_about_both_starts(newcomer):
    page = (newcomer.folder / "runs/mine/report.html").read_text()
    assert "runs/mine/report.html" in newcomer.reported and page.startswith("<!DOCTYPE html>") and "estart" in page


def test_transformers_counts_the_loss_that_the_run_reported(newcomer):
    rows = [json.loads(line) for line in (newcomer.folder / "validation.jsonl").open()]
    assert yaml.safe_load((newcomer.folder / "mine.yaml").read_text())["dataset"]["prompt_template"] == "chatml"
    loss, bound = loss_in_transformers(newcomer.names["model"], newcomer.names["tokenizer"], rows)
    [last] = [point["val/loss"] for point in newcomer.metrics() if "val/loss" in point and point["step"] == NUM_STEPS]
    assert abs(loss - last) < bound
    base = AutoModelForCausalLM.from_pretrained(newcomer.folder / "models/llama")
    before, _ = loss_in_transformers(base, newcomer.names["tokenizer"], rows)
    assert before - last > 10 * bound, "a run that has learned nothing would pass as well"
