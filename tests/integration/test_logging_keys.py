"""The section `logging`: what each rank writes to stderr and to its own log file, in real runs."""
import json
import os
import re
import stat
import subprocess

import pytest
from tiny_runs import TinyRuns, environment

STAMP = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
# A message of level info; an error instead where the watchdog comes first.
LEFT = r"(?:info|error) \[comm\] {}leaving with code 74 (?:of rank|\(rank) {}\b"


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("logging"), steps=2, every=1)


def run(runs, name, *flags, code=0, launch=(), env=(), failpoint=None, **options):
    """A run whose console is text, unless `flags` or keys say otherwise."""
    command = [word for word in runs.command(name, *flags, **options) if word != "--json"]
    at = command.index("launch") + 1 if launch else 0
    command[at:at] = launch
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**environment(failpoint), **dict(env)})
    assert done.returncode == code, f"ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}"
    return done


def log(runs, name, rank=0, ending="log"):
    return (runs.folder / name / f"logs/rank_{rank}.{ending}").read_text()


def test_each_rank_has_a_file_that_marks_every_start(wmtp, runs):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    done = run(runs, "restarts", ranks=2, restarts=1, failpoint="step.begin:rank=1:nth=2=kill", checkpoint__async=False)
    for rank in (0, 1):
        path = runs.folder / f"restarts/logs/rank_{rank}.log"
        lines = path.read_text().splitlines()
        marks = [line for line in lines if "==== start" in line]
        shapes = [rf"{STAMP} info \[log\] ==== start: rank {rank} of 2, pid (\d+), host \S+, restart {n} ===="
                  for n in (0, 1)]
        pids = [re.fullmatch(shape, mark)[1] for shape, mark in zip(shapes, marks, strict=True)]
        assert pids[0] != pids[1]
        assert all(re.match(rf"{STAMP} (info|warning|error) \[\w+\] ", line) for line in lines)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    # What rank 0 shows is in its file, from the first message on.
    shown = re.findall(r"^\[rank 0\] \d\d:\d\d:\d\d ((?:info|warning) .*)$", done.stderr, re.M)
    kept = [line.split(" ", 1)[1] for line in log(runs, "restarts").splitlines() if "==== start" not in line]
    assert shown and [line for line in kept if not line.startswith("error ")] == shown
    assert [line for line in kept if line.startswith("error [comm] ")], "the death of its peer ended it"


def with_link(runs, name, rank=0):
    """A run folder in which the log file of that rank would be written elsewhere."""
    folder = runs.folder / name / "logs"
    folder.mkdir(parents=True)
    (folder / f"rank_{rank}.log").symlink_to(runs.folder / "elsewhere")


def test_a_rank_without_the_console_keeps_its_messages(runs):
    with_link(runs, "link")
    done = run(runs, "link", ranks=2, code=74)
    assert re.search(r"wmtp: \[log\] \S+rank_0.log is a symbolic link; it is not followed; remove it", done.stderr)
    assert not (runs.folder / "elsewhere").exists()
    assert not re.search(r"\[rank 1\] .* info \[", done.stderr)
    assert re.search(rf"^{STAMP} {LEFT.format('', 0)}", log(runs, "link", rank=1), re.M)


def test_every_rank_has_the_console_if_asked_for(runs):
    with_link(runs, "all")
    done = run(runs, "all", ranks=2, code=74, logging__console_ranks="all")
    assert re.search(rf"^\[rank 1\] [\d:]+ {LEFT.format('rank 1: ', 0)}", done.stderr, re.M), done.stderr
    with_link(runs, "tee")
    done = run(runs, "tee", ranks=2, code=74, launch=("--tee", "all"))
    assert re.search(rf"^\[rank 1\] [\d:]+ {LEFT.format('', 0)}", done.stderr, re.M), done.stderr


def test_the_reason_of_the_exit_comes_from_any_rank(runs):
    folder = runs.folder / "fifo/logs"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "rank_1.log")
    done = run(runs, "fifo", ranks=2, code=74, logging__console_ranks="[]")
    assert re.search(r"\[rank 1\] wmtp: \[log\] \S+rank_1.log is not a regular file; ", done.stderr), done.stderr
    assert not re.search(r" info \[", done.stderr)
    assert re.search(LEFT.format("", 1), log(runs, "fifo"))


def test_json_is_for_diagnostics_and_leaves_stdout_alone(runs):
    done = run(runs, "json", logging__format="json", logging__level="debug", logging__dir=str(runs.folder / "other"))
    shown = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"log"} <= {line["type"] for line in shown}
    assert done.stdout.startswith("A sample of stage baseline") and "Training completed" in done.stdout
    assert not (runs.folder / "json/logs").exists()
    kept = [json.loads(line) for line in (runs.folder / "other/rank_0.jsonl").open()]
    assert kept[0]["type"] == "start" and kept[0]["world"] == 1 and kept[0]["pid"] > 0
    assert [(line["module"], line["message"]) for line in kept[1:]] == [(s["module"], s["message"]) for s in shown]
    assert "memory of a rank" in next(line["message"] for line in kept if line.get("level") == "debug")


def test_an_error_before_the_run_has_its_folder_is_kept_too(runs):
    done = run(runs, "early", code=78, logging__format="json", runtime__device="cuda",
               env={"CUDA_VISIBLE_DEVICES": ""})
    error = json.loads(done.stderr.splitlines()[-1])
    assert (error["type"], error["code"], error["where"]) == ("error", 78, "device")
    last = json.loads(log(runs, "early", ending="jsonl").splitlines()[-1])
    assert last["level"] == "error" and last["message"].startswith(error["message"])


def test_flags_win_over_keys(runs):
    done = run(runs, "quiet", "-q", "--color", "never", logging__color="always", logging__level="info")
    assert done.stderr == "" and "\x1b" not in done.stdout
    assert " info [train] " in log(runs, "quiet"), "-q is for the console"
    done = run(runs, "loud", "-v", logging__color="always", logging__level="error")
    assert "\x1b[36mdebug\x1b[m [train] memory of a rank" in done.stderr, done.stderr
    assert " debug [train] memory of a rank" in log(runs, "loud")
    done = run(runs, "least", logging__level="error")
    assert done.stderr == "" and "==== start" in log(runs, "least") and " info [train]" not in log(runs, "least")


def test_a_file_that_cannot_be_written_is_a_warning(runs):
    done = run(runs, "nowhere", logging__dir=str(runs.config / "logs"))
    assert re.findall(r"warning \[log\] cannot write to (\S+): .*ends here", done.stderr) == [
        str(runs.config / "logs/rank_0.log")]
    assert "Training completed" in done.stdout
    run(runs, "none", logging__rank_files=False)
    assert not (runs.folder / "none/logs").exists()
