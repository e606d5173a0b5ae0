"""SIGKILL for ranks of a real run, again and again: nothing that was told as saved is lost, no broken
checkpoint shows up, and the end is that of the run nobody disturbed. WMTP_SOAK multiplies the kills."""
import json
import os
import random
import re
import signal
import threading
import time

import pytest

from tiny_runs import TinyRuns, events, state_hash

SOAK = int(os.environ.get("WMTP_SOAK", "1"))  # 20: 1,000 kills
STORMS = 2                                    # at the same time: a restart waits for a second
KILLS = 25 * min(SOAK, 20)                    # each


class Storm(threading.Thread):
    """One launch that goes on by itself, and what it was seen to say."""

    def __init__(self, runs, name, seed):
        super().__init__()
        self.runs, self.name_, self.random = runs, name, random.Random(seed)
        self.logs = runs.folder / f"{name}-logs"
        self.kills, self.lost, self.text, self.failure = 0, [], "", None

    def run(self):
        try:
            self.storm()
        except Exception as error:  # shown by the test
            self.failure = error

    def storm(self):
        # A step takes 15 ms and more, so that kills meet all its phases.
        process = self.runs.start(self.name_, ranks=2, restarts=1000, log_dir=self.logs,
                                  failpoint="step.begin:nth=1+=sleep:15")
        reader = threading.Thread(target=self.read, args=(process,))
        reader.start()
        killed = set()
        while process.poll() is None:
            ranks = [pid for pid in children(process.pid) if pid not in killed]
            if self.kills < KILLS and len(ranks) == 2 and self.has_saved():
                time.sleep(self.random.uniform(0, 0.25))
                self.check()
                killed.update(ranks)
                kill(self.random.choice(ranks))
                self.kills += 1
            time.sleep(0.01)
        reader.join()
        self.code = process.returncode

    def read(self, process):
        for line in process.stdout:
            self.text += line

    def has_saved(self):
        """Whether this attempt has saved something: a storm that never lets it would not end."""
        log = self.logs / "rank_00000.log"
        if not log.exists():
            return False
        with open(log, "rb") as file:  # its end alone: asked a hundred times a second, and long storms write much
            file.seek(max(0, log.stat().st_size - 1_000_000))
            return b'"saved"' in file.read().rpartition(b"==== restart")[2]

    def started_over(self):
        """Starts that saved without having gone on from what was there. One that is killed as it starts says neither."""
        starts = (self.logs / "rank_00000.log").read_text().split("==== restart")
        first = next(i for i, start in enumerate(starts) if '"saved"' in start)
        later = [start for start in starts[first + 1:] if '"saved"' in start]
        assert later, "no later start saved anything: the test would prove nothing"
        return [start for start in later if '"resumed"' not in start.partition('"saved"')[0]]

    def check(self):
        """What was told is there, or something newer is."""
        told = [e["step"] for e in events(self.text, "saved")]
        there = self.runs.steps(self.name_)
        if told and (not there or max(there) < max(told)):
            self.lost.append((max(told), there))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_fifty_kills_change_nothing(wmtp, tmp_path):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    steps = 20 * KILLS
    runs = TinyRuns(wmtp, tmp_path, steps=steps, every=2)
    runs.run("calm", ranks=2, checkpoint__save_every_steps=steps)
    storms = [Storm(runs, f"storm{i}", seed=i) for i in range(STORMS)]
    for storm in storms:
        storm.start()
    for storm in storms:
        storm.join()
    print(f"\nG2: {sum(storm.kills for storm in storms)} kills in training, {sum(len(s.lost) for s in storms)} checkpoints lost")
    for storm in storms:
        assert not storm.failure, storm.failure
        assert storm.code == 0, storm.text[-3000:]
        assert storm.kills == KILLS, f"the run ended after {storm.kills} kills"
        assert not storm.lost, storm.lost
        assert not storm.started_over(), "a start forgot what an earlier one had saved"
        assert not list(runs.save_dir(storm.name_).glob("*.bad-*")), "a broken checkpoint showed up"
        assert state_hash(runs.checkpoint(storm.name_, steps)) == state_hash(runs.checkpoint("calm", steps))


def test_progress_refills_the_restart_budget(wmtp, tmp_path):
    """Every start dies 7 steps on; with a save every 3 steps one restart at a time is enough."""
    runs = TinyRuns(wmtp, tmp_path, steps=40, every=3)
    runs.run("calm", ranks=2, checkpoint__save_every_steps=40)
    done = runs.run("run", ranks=2, restarts=1, failpoint="step.begin:rank=1:nth=7=kill")
    resumed = [e["step"] for e in events(done.stdout, "resumed")]
    assert len(resumed) >= 5 and resumed == sorted(set(resumed)), done.stderr
    assert state_hash(runs.checkpoint("run", 40)) == state_hash(runs.checkpoint("calm", 40))


def test_without_progress_the_launcher_gives_up(wmtp, tmp_path):
    runs = TinyRuns(wmtp, tmp_path, steps=40, every=3)
    done = runs.run("run", ranks=2, restarts=1, failpoint="step.begin:rank=1:nth=2=kill", code=137)
    assert re.search(r"giving up: 1 of 1 restarts", done.stderr)
    assert json.loads((tmp_path / "run/last_exit.json").read_text())["code"] == 75
