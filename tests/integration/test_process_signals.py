"""Readers that leave, terminals that hang up, launchers that die, and stops that come before the program has begun."""
import json
import os
import signal
import subprocess

import pytest

from tiny_runs import TinyRuns, children, environment, metrics, wait_for

pytestmark = pytest.mark.usefixtures("default_sighup")

STEPS = 30
SLOW = "step.begin:nth=1+=sleep:50"
NEVER = {"checkpoint__save_every_steps": 1000, "checkpoint__save_best": False}  # but at the end and at a stop


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    return TinyRuns(wmtp, tmp_path_factory.mktemp("process-signals"), steps=STEPS, every=1000)


class Piped:
    """A run in its first steps whose output goes into a pipe that the test holds."""

    def __init__(self, runs, name, ranks=1, ignored=()):
        log = runs.folder / f"{name}.hits"
        self.reader, writer = os.pipe()

        def prepare():
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)

        self.process = subprocess.Popen(runs.command(name, ranks=ranks, training__log_interval=1, **NEVER),
                                        stdout=writer, stderr=writer, env=environment(SLOW, log), preexec_fn=prepare)
        os.close(writer)
        self.text = b""
        wait_for(lambda: log.exists() and "step.begin" in log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, os.read(self.reader, 1 << 16).decode()

    def reader_leaves(self):
        os.close(self.reader)

    def read_all(self):
        while piece := os.read(self.reader, 1 << 16):
            self.text += piece
        os.close(self.reader)
        return self.text.decode()


def last_exit(runs, name):
    return json.loads((runs.folder / name / "last_exit.json").read_text())["code"]


def caught(pid):
    """The signals a process handles and those it ignores, by number."""
    with open(f"/proc/{pid}/status") as file:
        masks = dict(line.split(":\t") for line in file if line.startswith("Sig"))
    return ({n for n in range(1, 32) if int(masks[name], 16) >> (n - 1) & 1} for name in ("SigCgt", "SigIgn"))


# ---- readers that leave

@pytest.mark.parametrize("ranks", [1, 2])
def test_training_goes_on_without_its_reader(runs, ranks):
    """As with `| head`, or a tee that was killed."""
    name = f"reader-{ranks}"
    run = Piped(runs, name, ranks)
    run.reader_leaves()
    assert run.process.wait(120) == 0
    assert [point["step"] for point in metrics(runs, name) if "train/loss" in point] == list(range(1, STEPS + 1))
    assert runs.steps(name) == [STEPS]


def test_an_interrupt_that_ends_the_reader_too_saves(runs):
    """`wmtp train 2>&1 | tee log` and Ctrl-C: the terminal sends SIGINT to both."""
    run = Piped(runs, "tee")
    run.reader_leaves()
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(120) == 80
    assert runs.steps("tee") and last_exit(runs, "tee") == 80


def test_ranks_of_a_killed_launcher_save(runs):
    """Their output goes nowhere from then on."""
    run = Piped(runs, "orphans", ranks=2)
    ranks = children(run.process.pid)
    assert len(ranks) == 2
    run.process.kill()
    run.process.wait()
    run.reader_leaves()
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks))
    assert runs.steps("orphans") and last_exit(runs, "orphans") == 80


# ---- hang-ups

@pytest.mark.parametrize("ranks", [1, 2])
def test_a_hang_up_is_a_stop(runs, ranks):
    name = f"hang-up-{ranks}"
    run = Piped(runs, name, ranks)
    run.process.send_signal(signal.SIGHUP)
    run.reader_leaves()  # the terminal is gone
    assert run.process.wait(120) == 80
    assert runs.steps(name) and max(runs.steps(name)) < STEPS


@pytest.mark.parametrize("ranks", [1, 2])
def test_nohup_is_honoured(runs, ranks):
    name = f"nohup-{ranks}"
    run = Piped(runs, name, ranks, ignored=[signal.SIGHUP])
    for pid in (run.process.pid, *children(run.process.pid)):
        os.kill(pid, signal.SIGHUP)
    text = run.read_all()
    assert run.process.wait(120) == 0, text
    assert runs.steps(name) == [STEPS]


# ---- before the program has begun

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
def test_a_stop_before_anything_was_loaded_is_81(runs, number):
    """Handlers stand before LibTorch is initialised, which takes most of a start."""
    process = subprocess.Popen(runs.command(f"early-{number.name}"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def stands():
        handled, ignored = caught(process.pid)
        return signal.SIGUSR2 in handled and signal.SIGPIPE in ignored
    wait_for(lambda: stands() or process.poll() is not None)
    process.send_signal(number)
    assert process.wait(60) == 81, process.communicate()[0]
    assert not (runs.folder / f"early-{number.name}").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_launcher_stopped_at_once_does_not_start_again(runs, number):
    """Its ranks may not even have a handler yet: no crash all the same."""
    process = subprocess.Popen(runs.command(f"at-once-{number.name}", ranks=2, restarts=3), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    wait_for(lambda: len(children(process.pid)) == 2 or process.poll() is not None)
    process.send_signal(number)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 81, text
    assert "starting all ranks again" not in text and '"error"' not in text


def test_a_launcher_stopped_before_its_ranks_is_81(runs):
    process = subprocess.Popen(runs.command("no-ranks", ranks=2), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for(lambda: signal.SIGTERM in list(caught(process.pid))[0] or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 81, process.communicate()[0]
