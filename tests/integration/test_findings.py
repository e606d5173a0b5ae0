"""`wmtp report` on runs with one planted cause each: it is found there, and nowhere else; a healthy run has no finding.

REAL are runs of the program; failpoints slow it down or break it where no key can. MADE are the files of the healthy run with
numbers changed or added: what they stand for takes several ranks, or hundreds of steps."""
import json
import math
import shutil
import xml.etree.ElementTree as tree

import pytest
from tiny_runs import TinyRuns

FEW = {"training__max_steps": 6}
SAVING = {**FEW, "checkpoint__save_every_steps": 2}
REAL = {
    "healthy": ({}, None),
    "rate-too-high": ({"training__learning_rate": 1, "training__lr_scheduler": {"type": "constant"}, "training__max_steps": 16}, None),
    "gradients-clipped": ({"training__max_grad_norm": 0.001, "training__max_steps": 16}, None),
    "flat-loss": ({**FEW, "training__learning_rate": 1e-9, "training__eval_every_steps": 2}, None),
    "few-correct-rows": ({**FEW, "data_sampling": {"balance_correct": True, "correct_ratio": 0.05, "n_samples": 40}}, None),
    "truncated-answers": ({**FEW, "dataset__max_length": 64}, None),
    "weights-collapsed": ({**FEW, "experiment__stage": "verifiable",
                           "training__td": {"whiten": "batch", "beta": 0.1, "clip_min": 0, "clip_max": 1000}}, None),
    "critic-at-chance": ({**FEW, "experiment__stage": "critic", "data_sampling__use_pairwise": True,
                          "training__learning_rate": 1e-9, "training__value_head__learning_rate": 1e-30,
                          "training__value_loss__bias_init": 0.5, "training__eval_every_steps": 2}, None),
    "data-wait": ({**FEW, "dataset__loader_threads": 1, "dataset__prefetch_batches": 1},
                  "data.batch.made:nth=1+=sleep:150"),
    "bad-steps": (FEW, "step.grad_norm:nth=4=damage"),
    "loss-spikes": ({}, "step.loss.spike:nth=22=damage"),
    "failed-saves": (SAVING, "save.stage.begin:nth=1=eio"),
    "saves-block": ({**SAVING, "checkpoint__async": False}, "save.stage.begin:nth=1+=sleep:300"),
}


def points_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").open()]


def add_to_steps(names):
    """Writes the metrics of `names`, functions of the step, beside every loss."""
    def change(folder):
        points = points_of(folder)
        for point in points:
            if "train/loss" in point:
                point.update({name: value(point["step"]) for name, value in names.items()})
        write_points(folder, points)
    return change


def write_points(folder, points):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))


def add_a_straggler(folder):
    """Rank 1 holds the others up, which wait for it."""
    add_to_steps({"comm/wait_share": lambda step: 0.6})(folder)
    points = points_of(folder)
    points += [{"step": 20, "time": points[-1]["time"], "perf/slowest_rank_speed": 0.4, "perf/straggler_rank": 1,
                "perf/straggler_slowdown": 2.5},
               {"event": "straggler", "step": 20, "time": points[-1]["time"],
                "text": "rank 1 on node7 holds the others up: 50.0 ms a step of its own; it loses most in compute"}]
    write_points(folder, points)


def leave_saves_out(folder):
    points = points_of(folder)
    points += [{"step": step, "time": points[-1]["time"], "checkpoint/skipped_saves": count}
               for count, step in enumerate((15, 20), 1)]
    write_points(folder, points)


def restart_in_vain(folder):
    (folder / "summary.json").unlink()
    line = json.loads((folder / "restarts.jsonl").read_text())
    lines = [{**line, "resumed_step": step} for step in (None, 10, 10, 10)]
    (folder / "restarts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def overfit(folder):
    points = [point for point in points_of(folder) if "val/loss" not in point]
    points += [{"step": step, "time": points[-1]["time"], "val/loss": loss} for step, loss in ((6, 4.0), (12, 3.0), (18, 3.5))]
    write_points(folder, points)


MADE = {
    "comm-wait": add_to_steps({"comm/wait_share": lambda step: 0.4, "comm/wait_ms": lambda step: 10.0}),
    "straggler": add_a_straggler,
    "saves-left-out": leave_saves_out,
    "restarts-without-progress": restart_in_vain,
    "validation-rises": overfit,
    "weights-clipped": add_to_steps({"weight/clipping_ratio": lambda step: 0.7, "weight/entropy": lambda step: 0.95}),
}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("findings"), steps=24, every=10, lora=False)
    for name, (overrides, failpoint) in REAL.items():
        made.run(name, failpoint=failpoint, **{"training__log_interval": 1, **overrides})
    for name, change in MADE.items():
        shutil.copytree(made.folder / "healthy", made.folder / name)
        change(made.folder / name)
    return made


@pytest.fixture(scope="module")
def reported(wmtp, runs):
    """{name: its part of the JSON}"""
    folders = [runs.folder / name for name in (*REAL, *MADE)]
    told = json.loads(wmtp.run("report", *folders, "--format", "json").stdout)["runs"]
    return {run["name"]: run for run in told}


def test_each_cause_is_found_where_it_is_and_nowhere_else(reported):
    found = {name: [finding["id"] for finding in run["findings"]] for name, run in reported.items()}
    assert found == {name: [] if name == "healthy" else [name] for name in (*REAL, *MADE)}


def test_every_rule_is_planted(reported):
    healthy = reported["healthy"]
    assert {*healthy["looked_at"], *healthy["not_looked_at"]} == {*REAL, *MADE} - {"healthy"}


def test_a_finding_has_fact_numbers_and_advice(reported):
    for run in reported.values():
        for finding in run["findings"]:
            assert finding["severity"] in ("problem", "warning") and finding["question"] in ("slow", "unstable", "not learning")
            assert finding["fact"] and finding["advice"] and finding["limit"] and finding["keys"]
            assert finding["docs"].startswith("docs/") and "#" in finding["docs"]
            assert finding["numbers"] and all(math.isfinite(value) for value in finding["numbers"].values())
    waits = reported["data-wait"]["findings"][0]["numbers"]
    assert waits["perf/data_wait_ms"] > 50 and waits["perf/step_time_ms"] > waits["perf/data_wait_ms"]


def test_a_healthy_run_says_what_was_looked_at(wmtp, runs, reported):
    looked_at = reported["healthy"]["looked_at"]
    assert {"data-wait", "saves-block", "bad-steps", "rate-too-high", "gradients-clipped", "truncated-answers"} <= {*looked_at}
    text = wmtp.run("report", runs.folder / "healthy", "--format", "text").stdout
    first = text.splitlines()[0]
    assert first.startswith("healthy: nothing found; looked at: waiting for data, ")
    assert "no numbers for: waiting for communication" in first


def test_text_tells_findings_before_anything_else(wmtp, runs):
    lines = wmtp.run("report", runs.folder / "truncated-answers", "--format", "text").stdout.splitlines()
    assert lines[0].startswith("truncated-answers: 1 finding; looked at: ")
    assert lines[1].startswith("  problem truncated-answers (not learning): ")
    assert lines[2].startswith("    numbers: data.train.truncated_rows ")
    assert "dataset.max_length" in lines[3] and 'docs/troubleshooting.md, "Rows that teach nothing"' in lines[4]


@pytest.mark.parametrize("others", [(), ("healthy",)])
def test_findings_come_first_on_the_page_and_lead_to_their_drawing(wmtp, runs, others):
    page = runs.folder / "page.html"
    wmtp.run("report", *(runs.folder / name for name in ("data-wait", *others)), "--out", page)
    root = tree.fromstring(page.read_text())
    headings = [heading.text for heading in root.iter("h2")]
    assert headings[:2] == ["Findings", "Overview"]
    (link,) = root.iter("a")
    assert link.get("href") == "#curve-step-time-ms"
    (place,) = [item for item in root.iter() if item.get("id") == "curve-step-time-ms"]
    assert place.tag == ("h2" if others else "figure")
    assert ("Nothing found." in page.read_text()) == bool(others)


def test_several_runs_lie_over_each_other_in_text_of_one_size(wmtp, runs):
    page = runs.folder / "three.html"
    wmtp.run("report", *(runs.folder / name for name in ("healthy", "comm-wait", "rate-too-high")), "--out", page)
    root = tree.fromstring(page.read_text())
    charts = {svg.get("aria-label"): svg for svg in root.iter("svg") if svg.get("class") == "chart"}
    assert {line.get("class") for line in charts["loss"].iter("polyline")} == {f"k{i}{v}" for i in range(3) for v in ("", " v")}
    assert len({(svg.get("width"), svg.get("viewBox")) for svg in charts.values()}) == 1
    keys = [row[0].text for row in root.iter("tr") if len(row) == 4]
    assert "training.learning_rate" in keys and not [key for key in keys if key and ("dir" in key or "path" in key)]
