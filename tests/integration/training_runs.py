"""What the tests of whole training runs share: a folder with the demo corpus, and runs as files on disk."""
import json
import os
import subprocess
from pathlib import Path

import pytest

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


class Run:
    """A finished run: how it ended and what it left behind."""

    def __init__(self, folder, done):
        self.folder, self.done = folder, done
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr

    def _lines(self, name):
        return [json.loads(line) for line in (self.folder / name).open()]

    @property
    def points(self):
        return [point for point in self._lines("metrics.jsonl") if "event" not in point]

    def values(self, name):
        return [point[name] for point in self.points if name in point]

    @property
    def names(self):
        return {name for point in self.points for name in point} - {"step", "time"}

    @property
    def samples(self):
        return self._lines("samples.jsonl")

    @property
    def histograms(self):
        return self._lines("histograms.jsonl")

    @property
    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def final(self):
        return self.folder / "final"


class Workshop:
    """A folder that holds the demo corpus as `demo`; runs go to `runs`, as the shipped configurations have it."""

    def __init__(self, wmtp, folder, seed=42, rows=2000):
        self.wmtp, self.folder, self.seed = wmtp, folder, seed
        wmtp.run("data", "demo", "--out", folder / "demo", "--seed", seed, "--rows", rows)

    def command(self, config, name, *overrides, ranks=1, flags=()):
        if not Path(config).is_absolute():
            config = CONFIGS / config
        command = [self.wmtp.binary]
        if ranks > 1:
            command += ["launch", "--nproc", ranks, "--max-restarts", 0, "--"]
        command += [*flags, "train", "--config", config, "--run-dir", f"runs/{name}",
                    "--override", "runtime.threads=1", "--override", "runtime.device=cpu"]
        for override in overrides:
            command += ["--override", override]
        return list(map(str, command))

    def start(self, *args, **options):
        """The same, still running."""
        return subprocess.Popen(self.command(*args, **options), cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def train(self, config, name, *overrides, code=0, timeout=900, **options):
        """Trains in runs/NAME; fails the test unless the program ends with `code`."""
        done = subprocess.run(self.command(config, name, *overrides, **options), cwd=self.folder, text=True,
                              capture_output=True, timeout=timeout, env=os.environ)
        if done.returncode != code:
            pytest.fail(f"{name} ended with {done.returncode}, not {code}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return Run(self.folder / "runs" / name, done)
