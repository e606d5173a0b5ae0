"""A launched run that is killed now and then, and a clock beside it."""
import json
import os
import random
import signal
import threading
import time
from pathlib import Path


class KilledRun:
    """OWNS the process. `lines` are (seconds since the start, JSON object), in the order they came."""

    def __init__(self, runs, name, seed=1, **options):
        self.random = random.Random(seed)
        self.began = time.monotonic()
        self.process = runs.start(name, **options)
        self.lines, self.other = [], []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.append((self.now(), json.loads(line)))
            else:
                self.other.append(line)

    def now(self):
        return time.monotonic() - self.began

    def count(self, kind, after=0.0, **fields):
        return sum(at > after and line["type"] == kind and all(line.get(k) == v for k, v in fields.items())
                   for at, line in list(self.lines))

    def first(self, kind, after):
        """When the first such line after that moment came; None: not yet."""
        return next((at for at, line in list(self.lines) if at > after and line["type"] == kind), None)

    def wait_for(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end and self.process.poll() is None, "".join(self.other[-40:])
            time.sleep(0.005)

    def ranks(self):
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def kill_one(self):
        """SIGKILL for one rank; when it was."""
        at = self.now()
        os.kill(self.random.choice(self.ranks()), signal.SIGKILL)
        return at

    def stop(self):
        """Stops and saves; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=120)
        self.reader.join(timeout=10)
        return code
