"""A stand-in trainer (tests/tools/mlflow_storm.cpp) against a real MLflow server: outages, kills, and none of its numbers
lost or twice. WMTP_SOAK > 1 is the long tier: a million points, three outages of the server itself, twenty kills."""
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

START = Path(__file__).resolve().parents[1] / "support/servers/mlflow.sh"
SOAK = int(os.environ.get("WMTP_SOAK", "1")) > 1
SCALE = float(os.environ.get("WMTP_SOAK_SCALE", "1"))
KEYS = 20


class Gate:
    """The way to the server: open, closed (nobody listens), or losing answers (the server takes what it is sent)."""

    def __init__(self, port):
        self.server, self.loses_answers, self.listener, self.pairs = port, False, None, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.open()

    def open(self):
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=16)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def close(self):
        # A thread that waits in accept() keeps the socket listening until it is shut down.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.pairs:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.pairs = []

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                client = listener.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", self.server))
                except OSError:  # it is down
                    client.close()
                    continue
                self.pairs += [client, server]
                threading.Thread(target=self.copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self.copy, args=(server, client, True), daemon=True).start()

    def copy(self, source, target, is_answer):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_answer and self.loses_answers:
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class RealServer:
    def __init__(self, folder):
        self.folder = str(folder)
        self.start()

    def start(self):
        done = subprocess.run([str(START), "start", self.folder, sys.prefix], capture_output=True, text=True)
        if done.returncode:
            pytest.fail(f"no MLflow server:\n{done.stdout}{done.stderr}")
        self.uri = done.stdout.split("MLFLOW_TRACKING_URI=")[1].strip()

    def down(self):
        subprocess.run([str(START), "down", self.folder], check=True, capture_output=True)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    server = RealServer(tmp_path_factory.mktemp("mlflow"))
    yield server
    server.down()


@pytest.fixture
def gate(real):
    made = Gate(int(real.uri.rsplit(":", 1)[1]))
    yield made
    made.close()


class Storm:
    def __init__(self, wmtp, folder, uri):
        self.binary, self.folder = wmtp.binary.parent / "wmtp_mlflow_storm", folder
        if not self.binary.exists():
            pytest.fail(f"no program at {self.binary}: run make build, or ninja -C build wmtp_mlflow_storm")
        clean = {name: value for name, value in os.environ.items()
                 if not name.lower().endswith("_proxy") and not name.startswith("MLFLOW_")}
        self.env = {**clean, "MLFLOW_TRACKING_URI": uri}
        self.errors = (folder / "stderr").open("a")

    def start(self, *args):
        return subprocess.Popen([str(self.binary), *map(str, args)], stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                env=self.env)

    def run(self, *args):
        process = self.start(*args)
        out = process.communicate()[0]
        assert process.returncode == 0, (self.folder / "stderr").read_text()
        return SimpleNamespace(**json.loads(out.splitlines()[-1]))

    def committed(self):
        path = self.folder / "committed"
        return int(path.read_text()) if path.exists() else 0


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def check_history(client, run_id, num_steps):
    """Every key has one value at every step, and it is the one that was logged."""
    for key in range(KEYS):
        history = client.get_metric_history(run_id, f"train/metric_{key}")
        assert len(history) == num_steps, f"key {key}: {len(history)} values of {num_steps} steps"
        values = {one.step: one.value for one in history}
        assert values == {step: step + 1e-3 * key for step in range(1, num_steps + 1)}, f"key {key}"


def test_outages_and_kills_lose_nothing_and_repeat_nothing(wmtp, real, gate, tmp_path):
    num_points = round(1_000_000 * SCALE) if SOAK else 50_000
    num_kills, num_outages = (20, 3) if SOAK else (3, 2)
    num_steps, save_every = num_points // KEYS, 50
    step_us = 4000 if SOAK else 1500
    storm = Storm(wmtp, tmp_path, f"http://127.0.0.1:{gate.port}")
    random.seed(18)
    # What happens when, in steps: kills and outages begin at different ones, all before the end.
    kills = sorted(random.sample(range(save_every, num_steps * 9 // 10, save_every), num_kills))
    outages = [num_steps * (2 * i + 1) // (2 * num_outages + 1) for i in range(num_outages)]
    events = sorted([(at, "kill") for at in kills] + [(at, "outage") for at in outages])
    trainer = storm.start("train", tmp_path, num_steps, KEYS, step_us, save_every, 0)
    num_begun = 0
    for at, what in events:
        wait_for(lambda at=at: storm.committed() >= at - save_every, 600, f"the trainer did not come to step {at}")
        if what == "kill":
            time.sleep(random.random() * 0.1)
            trainer.send_signal(signal.SIGKILL)
            trainer.communicate()
            trainer = storm.start("train", tmp_path, num_steps, KEYS, step_us, save_every, 0)
            continue
        num_begun += 1
        if SOAK:
            real.down()
            time.sleep(5)
            real.start()
        elif num_begun == 1:
            gate.close()
            time.sleep(2)
            gate.open()
        else:
            gate.loses_answers = True
            time.sleep(2)
            gate.loses_answers = False
    out = trainer.communicate()[0]
    assert trainer.returncode == 0, (tmp_path / "stderr").read_text()
    last = SimpleNamespace(**json.loads(out.splitlines()[-1]))
    assert last.dropped == 0 and last.rejected == 0

    # Before and after: what else runs on the machine changes the server's rate.
    num_batches = 100 if SOAK else 4
    before = storm.run("rate", num_batches).per_s
    drained = storm.run("sync", tmp_path)
    rate = 2 / (1 / before + 1 / storm.run("rate", num_batches).per_s)
    (run,) = drained.runs
    assert run["left"] == 0 and run["problem"] == "", run
    sent_per_s = run["sent"] / drained.seconds
    print(f"\n{num_points} points, {num_outages} outages, {num_kills} kills: caller p50 {last.p50_us:.2f} us, p99 {last.p99_us:.2f} us, "
          f"max {last.max_us:.0f} us; {run['sent']} drained at {sent_per_s:.0f}/s, the server's own rate {rate:.0f}/s "
          f"({sent_per_s / rate:.2f}); spool opened in {last.open_s:.2f} s")

    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient
    client = MlflowClient(tracking_uri=real.uri)
    runs = client.search_runs([client.get_experiment_by_name("storm").experiment_id], "tags.`wmtp.run_uid` = '5709'")
    assert [one.info.run_id for one in runs] == [run["run_id"]]
    assert runs[0].info.status == "FINISHED" and runs[0].data.tags["wmtp.exit_reason"] == "completed"
    check_history(client, run["run_id"], num_steps)
    if SOAK:
        assert sent_per_s >= 0.8 * rate
        assert last.p99_us <= 5
