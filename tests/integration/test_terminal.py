"""What a run and a long build show on a terminal: a pty of a given width, the program or `wmtp launch` at its other end."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest
from killed_ranks import mpirun_of_tests
from tiny_runs import TinyRuns, environment

SLOW_STEPS = "step.begin:nth=1+=sleep:40"  # a bar is drawn every 200 ms at most
FRAME = re.compile(r"\x1b\[\?2026h(.*?)\x1b\[\?2026l", re.S)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def set_columns(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Shown:
    """A command on a terminal of its own, run to its end; `at_frame(number)` may give a new width while it runs."""

    def __init__(self, command, columns, at_frame=lambda number: None):
        main, other = pty.openpty()
        set_columns(main, columns)
        process = subprocess.Popen([str(word) for word in command], stdin=other, stdout=other, stderr=other,
                                   start_new_session=True, env=environment(SLOW_STEPS),
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(other)
        self.text, self.frames, end = "", [], time.monotonic() + 120
        while time.monotonic() < end:
            ready, _, _ = select.select([main], [], [], 1)
            try:
                got = os.read(main, 65536) if ready else b""
            except OSError:  # the last process that had it is gone
                break
            self.text += got.decode(errors="replace")
            frames = FRAME.findall(self.text)
            for number in range(len(self.frames), len(frames)):
                columns = at_frame(number) or columns
                set_columns(main, columns)
            self.frames = frames
        os.close(main)
        self.code = process.wait(timeout=10)
        assert self.code == 0, self.text

    def rows(self, which=slice(None)):
        """The rows of the drawings, without escapes."""
        return [ESCAPE.sub("", row) for frame in self.frames[which] for row in frame.split("\n") if ESCAPE.sub("", row)]

    def lines(self):
        """What is no drawing, line by line."""
        return [ESCAPE.sub("", line) for line in FRAME.sub("", self.text).split("\n")]


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("terminal"), steps=40, every=50, lora=False)
    wmtp.run("data", "demo", "--out", runs.folder / "data", "--rows", "3000", "--seed", "3")
    return runs


def command(runs, name, val_samples=600, **options):
    """As a person types it: without --json; a validation takes longer than a drawing lasts."""
    words = runs.command(name, data_sampling__val_n_samples=val_samples, training__eval_every_steps=20,
                         dataset__validation=str(runs.folder / "data/train.jsonl"), **options)
    return [word for word in words if word != "--json"]


@pytest.fixture(scope="module")
def alone(runs):
    """60 columns, and 44 from the fifth drawing on. Its validations last for several drawings on fast processors too."""
    return Shown(command(runs, "alone", val_samples=2400), 60, lambda number: 44 if number == 4 else None)


def test_no_row_of_the_bar_wraps_at_60_columns_or_after_a_resize(alone):
    assert any(row.startswith("baseline") and "step" in row for row in alone.rows(slice(0, 4)))
    assert max(map(len, alone.rows(slice(0, 4)))) in range(50, 60)
    assert max(map(len, alone.rows(slice(6, None)))) < 44  # the one after the resize may have been on its way


def test_a_validation_moves_on_the_terminal(alone):
    shares = {found[1] for row in alone.rows() if (found := re.search(r"validation at step \d+.* (\d+) %", row))}
    assert len(shares) >= 3, alone.rows()


def test_the_end_says_first_how_it_went_and_what_to_type_next(alone, runs):
    lines = alone.lines()
    end = next(i for i, line in enumerate(lines) if line.startswith("Training completed: step 40, best val/loss"))
    words = [line.split("  ")[0] for line in lines[end + 2:end + 8]]
    assert words == ["status", "best val/loss", "next", "", "run", "stage"], lines[end:]  # no export, so no `final`
    assert lines[end + 4].split(None, 1)[1] == f"wmtp report {runs.folder / 'alone'}"


def test_a_bar_of_rank_0_reaches_the_terminal_of_the_launcher_and_no_log(runs):
    shown = Shown(command(runs, "both", ranks=2, log_dir=runs.folder / "logs", val_samples=4), 60)
    assert any(row.startswith("baseline step") for row in shown.rows())
    assert max(map(len, shown.rows())) < 60
    log = (runs.folder / "logs/rank_00000.log").read_text()
    assert "Training completed" in log and "\x1b[?2026" not in log


def test_mpirun_whose_output_is_a_file_gets_no_bar_and_no_colours(runs):
    """Its ranks have terminals of their own all the same."""
    argv = [*mpirun_of_tests(2), *command(runs, "mpirun", val_samples=4, training__max_steps=4)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment(SLOW_STEPS), timeout=120)
    assert done.returncode == 0 and "Training completed" in done.stdout, done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr and "\r" not in done.stdout


def test_a_token_cache_that_is_being_built_moves_on_the_terminal(wmtp, runs):
    rows = (runs.folder / "data/train.jsonl").read_text()
    (runs.folder / "long.jsonl").write_text(rows * (1 + 40_000_000 // len(rows)))
    shown = Shown([wmtp.binary, "data", "tokenize", runs.folder / "long.jsonl", "--tokenizer", runs.folder / "data",
                   "--threads", "1"], 60)
    drawn = {row for row in shown.rows() if row.startswith("tokenizing long.jsonl: ")}
    assert len(drawn) >= 2 and max(map(len, drawn)) < 60, shown.text
    piped = wmtp.run("data", "tokenize", runs.folder / "data/train.jsonl", "--tokenizer", runs.folder / "data", "--force")
    assert "\x1b" not in piped.stdout + piped.stderr
