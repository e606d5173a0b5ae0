"""SIGKILL for ranks of a real run, again and again: nothing that was told as saved is lost, no broken
checkpoint shows up, and after every kill and at the end the state is that of the run nobody disturbed: history.py says
what is compared, samples included. WMTP_SOAK multiplies the kills."""
import json
import os
import random
import re
import shutil
import signal
import threading
import time

import pytest

from history import History, newest, retained
from tiny_runs import TinyRuns, children, events, state_hash

SOAK = int(os.environ.get("WMTP_SOAK", "1"))  # 20: 1,020 kills
GROUPS = {"distributed__fsdp__sharding_strategy": "HYBRID_SHARD", "distributed__fsdp__shard_group_size": 2}
STORMS = ((2, {}), (3, {}), (4, GROUPS))      # ranks and keys; at the same time: a restart waits for a second
KILLS = 17 * min(SOAK, 20)                    # each
STEPS = 16 * KILLS                            # of which a kill lets pass 20 at most, 11 on average
EVERY = 2


class Storm(threading.Thread):
    """One launch that goes on by itself, and what it was seen to say and to leave on disk."""

    def __init__(self, runs, ranks, keys):
        super().__init__()
        self.runs, self.ranks, self.keys, self.name_, self.random = runs, ranks, keys, f"storm{ranks}", random.Random(ranks)
        self.logs = runs.folder / f"{self.name_}-logs"
        self.kills, self.told, self.seen, self.text, self.failure = 0, 0, [], "", None

    def run(self):
        try:
            self.storm()
        except Exception as error:  # shown by the test
            self.failure = error

    def storm(self):
        # A step takes 15 ms and more, so that kills meet all its phases.
        process = self.runs.start(self.name_, ranks=self.ranks, restarts=1000, log_dir=self.logs,
                                  failpoint="step.begin:nth=1+=sleep:15", training__log_interval=1, **self.keys)
        reader = threading.Thread(target=self.read, args=(process,))
        reader.start()
        killed = set()
        while process.poll() is None:
            alive = children(process.pid)
            ranks = [pid for pid in alive if pid not in killed]
            if self.kills < KILLS and len(ranks) == self.ranks and self.has_saved():
                time.sleep(self.random.uniform(0, 0.25))
                killed.update(ranks)
                kill(self.random.choice(ranks))
                self.kills += 1
                self.look(process, set(ranks))
            time.sleep(0.01)
        reader.join()
        self.code = process.returncode

    def read(self, process):
        for line in process.stdout:
            self.text = (self.text + line)[-20_000:]
            if '"saved"' in line:
                self.told = max(self.told, json.loads(line)["step"])

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

    def look(self, process, ranks):
        """After a kill, in the pause before the next start: what was told, and what is there."""
        while ranks & set(children(process.pid)):
            time.sleep(0.01)
        self.seen.append((self.told, newest(self.runs, self.name_)))


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_fifty_kills_change_nothing(wmtp, tmp_path):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path, steps=STEPS, every=EVERY)
    storms = [Storm(runs, ranks, keys) for ranks, keys in STORMS]
    for storm in storms:
        storm.start()
    try:
        histories = [History(runs, f"calm{ranks}", ranks=ranks, **keys) for ranks, keys in STORMS]
    finally:
        for storm in storms:
            storm.join()
    wrong = [[text for told, found in storm.seen for text in history.complaints_of(found, told)]
             for storm, history in zip(storms, histories)]
    print(f"\nG2: {sum(storm.kills for storm in storms)} kills in training, {sum(map(len, wrong))} checkpoints lost")
    for storm, history, complaints in zip(storms, histories, wrong):
        assert sorted(history.hashes) == list(range(EVERY, STEPS + 1, EVERY)), "the undisturbed run saves every time"
        assert not storm.failure, storm.failure
        assert storm.code == 0, storm.text
        assert storm.kills == KILLS, f"the run ended after {storm.kills} kills"
        assert not complaints, complaints
        assert not storm.started_over(), "a start forgot what an earlier one had saved"
        assert not list(runs.save_dir(storm.name_).glob("*.bad-*")), "a broken checkpoint showed up"
        assert not history.complaints_of(retained(runs, storm.name_), told=STEPS)
        assert not history.complaints_of_losses(runs, storm.name_)
        wmtp.run("checkpoint", "verify", runs.save_dir(storm.name_), "--all")
        state = json.loads((runs.checkpoint(storm.name_, STEPS) / "trainer_state.json").read_text())
        cursor = state["cursor"]
        taken = cursor["epoch"] * cursor["num_samples"] + cursor["samples_taken"]
        assert taken == state["samples_seen"] == STEPS * 2 * storm.ranks


def test_what_the_storm_would_not_overlook(wmtp, tmp_path):
    """Controls of the oracle: a checkpoint lost, one under another's name, a shard cut short, other samples."""
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path, steps=8, every=2)
    calm = History(runs, "calm")
    keep = {"training__log_interval": 1, "checkpoint__save_total_limit": None, "checkpoint__async": False}

    runs.run("same", **keep)
    assert list(retained(runs, "same")) == [2, 4, 6, 8]
    assert not calm.complaints_of(retained(runs, "same"), told=8) and not calm.complaints_of_losses(runs, "same")
    assert calm.complaints_of(retained(runs, "same"), told=10)
    shutil.rmtree(runs.checkpoint("same", 4))
    shutil.copytree(runs.checkpoint("same", 2), runs.checkpoint("same", 4))
    assert calm.complaints_of(retained(runs, "same")) == ["step 4 is not the state of the undisturbed run"]

    shards = len(list(runs.checkpoint("same", 2).rglob("*.safetensors")))
    hits = tmp_path / "half.hits"
    process = runs.start("half", failpoint=f"save.shard.half:nth={3 * shards + 1}=skip", hits=hits, **keep)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 0 and hits.exists(), text
    assert [event["step"] for event in events(text, "saved")] == [2, 4, 6, 8], "nobody noticed"
    assert calm.complaints_of(newest(runs, "half"), told=8) == ["step 8 is not the state of the undisturbed run"]
    assert wmtp.run("checkpoint", "verify", runs.save_dir("half"), "--all", check=False).returncode == 74

    runs.run("other", data_sampling__seed=5, **keep)
    assert calm.complaints_of(newest(runs, "other")) and calm.complaints_of_losses(runs, "other")


def test_progress_refills_the_restart_budget(wmtp, tmp_path):
    """Every start dies 7 steps on; with a save every 3 steps, which the steps wait for, one restart at a time is enough."""
    runs = TinyRuns(wmtp, tmp_path, steps=40, every=3)
    runs.run("calm", ranks=2, checkpoint__save_every_steps=40)
    done = runs.run("run", ranks=2, restarts=1, failpoint="step.begin:rank=1:nth=7=kill", checkpoint__async=False)
    resumed = [e["step"] for e in events(done.stdout, "resumed")]
    assert len(resumed) >= 5 and resumed == sorted(set(resumed)), done.stderr
    assert state_hash(runs.checkpoint("run", 40)) == state_hash(runs.checkpoint("calm", 40))


def test_without_progress_the_launcher_gives_up(wmtp, tmp_path):
    runs = TinyRuns(wmtp, tmp_path, steps=40, every=3)
    done = runs.run("run", ranks=2, restarts=1, failpoint="step.begin:rank=1:nth=2=kill", code=137)
    assert re.search(r"giving up: 1 of 1 restarts", done.stderr)
    assert json.loads((tmp_path / "run/last_exit.json").read_text())["code"] == 75
