"""Bad days: a second start, files cut or planted under a run, and outputs that take nothing."""
import hashlib
import json
import os
import shutil
import signal
import subprocess

import pytest

from tiny_runs import TinyRuns, environment, error_of, metrics, wait_for_hit

SLOW = "step.begin:nth=1+=sleep:100"


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """A finished run of 4 steps, `calm`, and its folder."""
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("bad-day"), steps=4, every=2)
    runs.run("calm", checkpoint__export_on_finish="hf")
    return runs


def start(runs, name, failpoint=SLOW, **options):
    """A run of slow steps that is in its first one."""
    hits = runs.folder / f"{name}.hits"
    process = runs.start(name, failpoint=failpoint, hits=hits, **options)
    wait_for_hit(process, hits, "step.begin")
    return process


# ---- last_exit.json, and starts that are refused

def listing(folder):
    """Everything below the folder: kind, mode, time and content."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        found[str(path.relative_to(folder))] = (oct(status.st_mode), status.st_mtime_ns, content)
    return found


def test_a_refused_start_touches_nothing(runs):
    """The run itself is stopped meanwhile, so that all that changes is the doing of the others."""
    shutil.copytree(runs.folder / "calm", runs.folder / "living")
    folder = runs.folder / "living"
    stop_file = str(folder / "stop")
    living = start(runs, "living", training__max_steps=1000, runtime__stop_file=stop_file)
    assert not (folder / "last_exit.json").exists(), "that of the run before"
    living.send_signal(signal.SIGSTOP)
    folder.chmod(0o755)
    (folder / "stop").touch()
    before = listing(folder)
    refused = [dict(), dict(ranks=2), dict(models__policy__name="other"),
               dict(checkpoint__save_dir=str(folder / "elsewhere"))]
    for options in refused:
        done = runs.run("living", code=78, runtime__stop_file=stop_file, **options)
        assert listing(folder) == before, options
        assert f"uses the run folder {folder}" in error_of(done), options
        assert str(living.pid) in error_of(done) or len(options) == 1 and "ranks" not in options
    living.send_signal(signal.SIGCONT)  # it finds its stop file
    text = living.communicate(timeout=120)[0]
    assert living.returncode == 80, text
    assert json.loads((folder / "last_exit.json").read_text())["code"] == 80


def test_a_killed_run_does_not_say_done(runs):
    shutil.copytree(runs.folder / "calm", runs.folder / "killed")
    last_exit = runs.folder / "killed/last_exit.json"
    assert json.loads(last_exit.read_text())["reason"] == "done"
    runs.run("killed", code=-9, training__max_steps=40, failpoint="step.begin:nth=3=kill")
    assert not last_exit.exists(), last_exit.read_text()


# ---- files that are cut while they are mapped

@pytest.mark.parametrize("ending, options", [(".wtok", {}), (".widx", {}), (".wtok", {"ranks": 2, "restarts": 3})])
def test_a_cut_cache_file_is_named(runs, tmp_path, ending, options):
    name = f"cut{ending}-{len(options)}"
    process = start(runs, name, training__max_steps=1000, dataset__cache_dir=str(tmp_path), **options)
    cut = [path for path in tmp_path.rglob(f"*{ending}") if path.name.startswith("train")]
    assert cut
    for path in cut:
        os.truncate(path, 0)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 74, text
    assert any(f"{path} was cut" in text for path in cut), text
    assert "starting all ranks again" not in text
    if options:
        return
    for path in cut:  # as the message says
        path.unlink()
    runs.run(name, dataset__cache_dir=str(tmp_path))


def test_a_bus_error_from_elsewhere_is_one(runs):
    process = start(runs, "bus", training__max_steps=1000)
    process.send_signal(signal.SIGBUS)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == -signal.SIGBUS, text


# ---- a stdout that takes nothing

TOKENS = '{"ids": [1, 2, 3]}\n'


def results(runs):
    """Commands whose output is their result, with what they read from stdin."""
    folder, run = runs.folder, runs.folder / "calm"
    data, final = folder / "data", run / "final"
    return [
        (["--help"], None), (["--version"], None), (["version"], None), (["completion", "bash"], None),
        (["doctor", "--storage", folder], None),
        (["validate", "--config", runs.config, "--defaults", "none"], None),
        (["tokenizer", "encode", "--tokenizer", data, data / "train.jsonl"], None),
        (["tokenizer", "decode", "--tokenizer", data], TOKENS), (["tokenizer", "inspect", "--tokenizer", data], None),
        (["data", "inspect", "--config", runs.config, "--defaults", "none"], None),
        (["report", run, "--format", "text"], None), (["report", run, "--out", folder / "page.html"], None),
        (["checkpoint", "list", run], None),
        (["checkpoint", "inspect", final, "--tensors"], None), (["checkpoint", "inspect", run / "checkpoints/tiny-4steps"], None),
        (["score", "--model", final, "--data", folder / "rows.jsonl", "--device", "cpu"], None),
    ]


def call(runs, words, text, stdout, **options):
    done = subprocess.run([str(word) for word in [runs.wmtp.binary, *words]], input=text, text=True, stdout=stdout,
                          stderr=subprocess.PIPE, timeout=120, env=environment(), **options)
    return done.returncode, done.stderr


@pytest.fixture
def closed_pipe():
    """The writing end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def test_a_result_that_cannot_be_written_is_74(runs):
    (runs.folder / "rows.jsonl").write_text(TOKENS)
    calls = results(runs)
    calls += [(["--json", *words], text) for words, text in calls if words[-1] in ("version", runs.folder / "calm")]
    with open("/dev/full", "w") as full:
        for words, text in calls:
            code, errors = call(runs, words, text, full)
            assert code == 74, (words, errors)
            assert errors.count("stdout cannot be written: No space left on device") == 1, (words, errors)
            assert "a bug" not in errors


def test_a_reader_that_has_seen_enough_is_no_error_to_speak_of(runs, closed_pipe):
    """As `| head -1` leaves. Python ignores SIGPIPE, and so do its children unless it restores signals."""
    calls = [(words, text) for words, text in results(runs) if words[:2] in (["version"], ["tokenizer", "encode"])]
    for words, text in [*calls, (["--json", "version"], None), (["checkpoint", "list", runs.folder / "calm"], None)]:
        assert call(runs, words, text, closed_pipe, restore_signals=False) == (74, ""), words


def test_large_output_ends_at_the_first_write_that_fails(runs):
    """Its input goes on until it leaves."""
    command = [runs.wmtp.binary, "tokenizer", "decode", "--tokenizer", runs.folder / "data", "--per-line"]
    with open("/dev/full", "w") as full:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=full,
                                   stderr=subprocess.PIPE, text=True)
        with pytest.raises(BrokenPipeError):
            for _ in range(100_000):
                process.stdin.write(TOKENS * 10)
                process.stdin.flush()
    process.stdin = None
    assert process.wait(timeout=120) == 74, process.stderr.read()


def test_a_terminal_shows_lines_as_they_come(runs, tmp_path):
    """The second file has no content yet when the line of the first one is awaited."""
    (tmp_path / "first").write_text("a")
    os.mkfifo(tmp_path / "second")
    command = [runs.wmtp.binary, "tokenizer", "encode", "--tokenizer", runs.folder / "data", "first", "second"]
    screen, stdout = os.openpty()
    with subprocess.Popen([str(word) for word in command], stdout=stdout, cwd=tmp_path) as process:
        assert '"file":"first"' in os.read(screen, 4096).decode()
        (tmp_path / "second").write_text("b")
        assert process.wait(timeout=120) == 0
    os.close(stdout)
    os.close(screen)


def test_an_error_is_told_although_stdout_is_full(runs):
    with open("/dev/full", "w") as full:
        code, errors = call(runs, ["--json", "checkpoint", "list", runs.folder / "none"], None, full)
    assert code == 78 and f"{runs.folder / 'none'} is no folder" in errors


def test_training_goes_on_without_its_console(runs, closed_pipe):
    with open("/dev/full", "w") as full:
        for name, stdout, flags in ("full", full, ["--json"]), ("closed", closed_pipe, []):
            words = [word for word in runs.command(name)[1:] if word != "--json"]
            code, errors = call(runs, [*flags, *words], None, stdout, restore_signals=False)
            assert code == 0, errors
            assert max(point["step"] for point in metrics(runs, name)) == 4
            assert json.loads((runs.folder / name / "last_exit.json").read_text())["code"] == 0


# ---- what stands in the run folder

def test_a_foreign_file_in_final_is_seen_before_the_first_step(runs):
    final = runs.folder / "thesis/final"
    final.mkdir(parents=True)
    (final / "thesis.tex").write_text("years of work")
    done = runs.run("thesis", code=78, checkpoint__export_on_finish="auto")
    assert "thesis.tex" in error_of(done)
    assert not (runs.folder / "thesis/metrics.jsonl").exists() and not runs.steps("thesis")
    assert (final / "thesis.tex").read_text() == "years of work"
    runs.run("thesis")  # nothing is exported: the folder is in nobody's way
    shutil.copytree(runs.folder / "calm", runs.folder / "again")
    runs.run("again", checkpoint__export_on_finish="hf")  # an export may be replaced


@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.jsonl"])
def test_links_are_not_followed(runs, name):
    folder = runs.folder / f"linked-{name}"
    folder.mkdir()
    victim = runs.folder / f"victim-of-{name}"
    victim.write_text("precious\n")
    (folder / name).symlink_to(victim)
    done = runs.run(folder.name, code=74)
    assert f"{folder / name} is a symbolic link" in error_of(done)
    assert victim.read_text() == "precious\n" and not runs.steps(folder.name)


def mode(path):
    return path.stat().st_mode & 0o7777


def test_an_open_run_folder_is_made_private(runs):
    folder = runs.folder / "open"
    folder.mkdir()
    folder.chmod(0o755)
    done = runs.run("open")
    assert mode(folder) == 0o700
    assert done.stderr.count(f"{folder} was open to others (mode 755): it is 700 now") == 1, done.stderr
    assert all(mode(path) & 0o077 == 0 for path in folder.rglob("*"))
    assert "open to others" not in runs.run("open").stderr


def test_a_folder_that_is_shared_on_purpose_stays_so(runs):
    folder = runs.folder / "shared"
    folder.mkdir()
    folder.chmod(0o1777)  # as /tmp is
    done = runs.run("shared")
    assert mode(folder) == 0o1777
    assert f"{folder} is open to others (mode 1777)" in done.stderr
