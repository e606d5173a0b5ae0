"""Profiles of steps: `train --profile` and `bench step --profile`, their traces as Perfetto reads them, and the table."""
import json
import re
import stat

import pytest

from tiny_runs import TinyRuns, error_of, losses_by_step, state_hash

LAYERS, HEADS = 3, 4  # trunk blocks and prediction heads
SHAPE = {"models__policy__params": {"dim": 32, "n_layers": LAYERS + HEADS, "n_heads": 2, "n_kv_heads": 1, "head_dim": 16,
                                    "ffn_dim": 48}}
PHASES = {"data wait", "upload", "forward", *(f"loss head {k}" for k in range(HEADS)), "backward", "finish gradients",
          "totals", "update"}
WITHIN = {"gradient norm"}  # of a unit, in the phase that completes its gradient
UNITS = {f"{way} {unit}" for way in ("forward", "backward")
         for unit in ("root", *(f"layers.{i}" for i in range(LAYERS)), *(f"head {k}" for k in range(HEADS)))}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """A run of four steps, without a profile and with one of its steps 2 and 3."""
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("profile") / 'a "run" \\ of', steps=4, every=2, lora=False)
    runs.run("plain", **SHAPE)
    runs.said = runs.run("profiled", "--profile", "2-3", **SHAPE).stderr
    return runs


def spans(path):
    """(name, category, begin, end) of the spans of the thread that has the steps, by their begin; what c10d's threads show of
    collectives is left out. Every event has what viewers need."""
    trace = json.loads(path.read_text())
    assert trace["traceName"] == path.name
    found = []
    for event in trace["traceEvents"]:
        assert {"ph", "ts", "pid", "tid", "name"} <= event.keys() and event["ph"] in "XMifsbe"
        if event["ph"] == "X" and event["cat"] in ("user_annotation", "cpu_op"):
            assert event["dur"] >= 0
            found.append((event["name"], event["cat"], event["ts"], event["ts"] + event["dur"], event["tid"]))
    [thread] = {span[4] for span in found if re.fullmatch(r"step \d+", span[0])}
    return sorted((span[:4] for span in found if span[4] == thread), key=lambda span: (span[2], -span[3]))


def inside(all_spans, outer):
    slack = 0.01  # microseconds since some years ago, as doubles
    return [span for span in all_spans if outer[2] - slack <= span[2] and span[3] <= outer[3] + slack and span != outer]


def named(all_spans, pattern):
    return [span for span in all_spans if span[1] == "user_annotation" and re.fullmatch(pattern, span[0])]


def summary_of(folder):
    return json.loads((folder / "profile/summary.json").read_text())


def test_a_trace_has_phases_and_units_within_its_steps(runs):
    trace = spans(runs.folder / "profiled/profile/rank_0.json")
    steps = named(trace, r"step \d+")
    assert [step[0] for step in steps] == ["step 2", "step 3"]
    for step in steps:
        names = {span[0] for span in inside(trace, step)}
        assert names >= PHASES | WITHIN | UNITS
        assert {"aten::mm", "aten::addmm", "wmtp::rms_norm", "wmtp::attention_backward", "wmtp::adamw"} <= names
        for phase in ("forward", "backward"):
            units = {f"{phase} root", *(f"{phase} layers.{i}" for i in range(LAYERS))}
            held = {span[0] for outer in named(inside(trace, step), phase) for span in inside(trace, outer)}
            assert held >= units
        for head in range(HEADS):
            held = {span[0] for outer in named(inside(trace, step), f"loss head {head}") for span in inside(trace, outer)}
            assert held >= {f"forward head {head}", f"backward head {head}"}
    beside = {span[0] for span in named(trace, ".*") if not any(span in inside(trace, step) for step in steps)}
    assert not beside & (PHASES | UNITS)


def test_a_profile_changes_no_bit(runs):
    assert losses_by_step(runs, "profiled") == losses_by_step(runs, "plain")
    assert state_hash(runs.checkpoint("profiled", 4)) == state_hash(runs.checkpoint("plain", 4))
    assert not (runs.folder / "plain/profile").exists()


def test_the_files_are_private_and_nothing_else_is_left(runs):
    folder = runs.folder / "profiled/profile"
    assert sorted(path.name for path in folder.iterdir()) == ["rank_0.json", "summary.json"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())


def test_the_table_adds_up(runs, wmtp):
    summary = summary_of(runs.folder / "profiled")
    trace = spans(runs.folder / "profiled/profile/rank_0.json")
    steps = named(trace, r"step \d+")
    wall_s = (steps[-1][3] - steps[0][2]) / 1e6
    assert (summary["first_step"], summary["last_step"], summary["rank"], summary["world"]) == (2, 3, 0, 1)
    assert summary["wall_s"] == pytest.approx(wall_s, abs=1e-7)
    assert sum(row["seconds"] for row in summary["operators"]) + summary["gap_s"] == pytest.approx(wall_s, abs=1e-6)
    assert sum(row["seconds"] for row in summary["phases"]) == pytest.approx(wall_s, abs=1e-6)
    assert all(row["seconds"] >= 0 for row in summary["operators"] + summary["phases"])
    assert 0 < summary["gemm_s"] <= summary["wall_s"] and 0 <= summary["gap_s"] <= summary["wall_s"]
    assert {row["name"] for row in summary["phases"]} == PHASES | {"other parts of steps", "between steps"}
    assert all(row["calls"] == 2 for row in summary["phases"] if row["name"] in PHASES)
    for text in ("profile of steps 2 to 3", summary["operators"][0]["name"], "in no operator", "ui.perfetto.dev"):
        assert text in runs.said
    assert "gpuGetDeviceCount" not in runs.said
    text = wmtp.run("report", runs.folder / "profiled", "--format", "text").stdout
    page = runs.folder / "report.html"
    wmtp.run("report", runs.folder / "profiled", "--out", page)
    assert "profile of steps 2 to 3" in text and "finish gradients" in text
    assert "profile of steps 2 to 3" in page.read_text() and "<td>finish gradients</td>" in page.read_text()
    told = json.loads(wmtp.run("report", runs.folder / "profiled", "--format", "json").stdout)
    assert told["runs"][0]["profile"] == summary


def test_a_damaged_table_is_refused_and_a_hostile_one_is_harmless(runs, wmtp):
    file = runs.folder / "profiled/profile/summary.json"
    before = file.read_text()
    try:
        file.write_text(before.replace('"gap_s"', '"gop_s"'))
        error = wmtp.error("report", runs.folder / "profiled", "--format", "text", code=65)
        assert "summary.json" in error["message"] and "gap_s" in error["message"]
        file.write_text(before.replace("finish gradients", "\\u001b[31m<b>x"))
        page = runs.folder / "hostile.html"
        wmtp.run("report", runs.folder / "profiled", "--out", page)
        text = wmtp.run("report", runs.folder / "profiled", "--format", "text").stdout
        assert "\x1b" not in text and "<b>x" not in page.read_text() and "\x1b" not in page.read_text()
    finally:
        file.write_text(before)


def test_each_rank_has_a_trace_with_its_collectives(runs):
    runs.run("two", "--profile", "2", ranks=2, **SHAPE)
    units = ["root", *(f"model.layers.{i}" for i in range(LAYERS + 1)),  # the first head is the last of the layers
             *(f"model.extra_heads.{k}" for k in range(HEADS - 1))]
    for rank in range(2):
        trace = spans(runs.folder / f"two/profile/rank_{rank}.json")
        [step] = named(trace, r"step \d+")
        names = [span[0] for span in inside(trace, step)]
        for unit in units:
            assert f"all_gather {unit}" in names and f"wait all_gather {unit}" in names, names
            assert f"reduce_scatter {unit}" in names and f"wait reduce_scatter {unit}" in names
        assert names.count("all_reduce totals") == 1
    summary = summary_of(runs.folder / "two")
    assert (summary["rank"], summary["world"]) == (0, 2)
    assert {"all_gather", "wait all_gather", "reduce_scatter"} <= {row["name"] for row in summary["operators"]}


@pytest.mark.parametrize("steps, why", [("0", "counted from 1"), ("3-2", "2 comes before 3"), ("", "whole number")])
def test_what_is_no_range_is_refused(runs, wmtp, steps, why):
    flag = [f"--profile={steps}"] if steps else ["--profile", steps]
    error = wmtp.error("train", "--config", runs.config, *flag, code=78)
    assert "--profile" in error["message"] and why in error["message"]


def test_steps_that_the_run_does_not_take(runs, wmtp):
    assert "has 4 steps, so there is no step 5" in error_of(runs.run("beyond", "--profile", "5-9", code=78, **SHAPE))
    said = runs.run("profiled", "--profile", "2-3", "--override", "training.max_steps=5", **SHAPE).stderr
    assert "no profile: the run goes on behind step 4" in said
    dry = wmtp.run("train", "--config", runs.config, "--dry-run", "--profile", "1", check=False)
    assert dry.returncode != 0 and "--profile" in dry.stderr and "--dry-run" in dry.stderr


def test_a_kill_while_it_records_harms_nothing(runs, wmtp):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs.run("killed", "--profile", "2-4", failpoint="step.apply.before:nth=3=kill", code=-9, checkpoint__async=False, **SHAPE)
    assert not (runs.folder / "killed/profile").exists()
    said = runs.run("killed", "--profile", "2-4", **SHAPE).stderr
    assert "steps 3 to 4 are to come" in said
    assert summary_of(runs.folder / "killed")["first_step"] == 3
    assert state_hash(runs.checkpoint("killed", 4)) == state_hash(runs.checkpoint("plain", 4))


def test_every_stage_names_its_signals(runs, wmtp, tmp_path):
    for stage, phases in {"rho1": {"loss head 0"}, "verifiable": {"signals", "loss head 0"},
                          "critic": {"forward value head", "backward value head"}}.items():
        trace = tmp_path / f"{stage}.json"
        done = wmtp.run("bench", "step", "--preset", "micro", "--batch", 1, "--seq", 16, "--steps", 1, "--warm", 0,
                        "--threads", 1, "--device", "cpu", "--stage", stage, "--profile", trace)
        [step] = named(spans(trace), r"step \d+")
        assert {span[0] for span in inside(spans(trace), step)} >= phases
        assert "profile of step 2" in done.stderr and json.loads(done.stdout)["type"] == "result"
    gone = wmtp.error("bench", "step", "--preset", "micro", "--batch", 1, "--seq", 16, "--steps", 1, "--warm", 0,
                      "--device", "cpu", "--profile", tmp_path / "nowhere/t.json", code=74)
    assert "nowhere/t.json" in gone["message"]
