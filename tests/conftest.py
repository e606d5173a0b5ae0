"""What the Python tests share: the program under test and a way to run it.

    def test_version(wmtp):
        assert wmtp.json("version")["libtorch"].startswith("2.11.0")
"""
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

# Under some hypervisors oneDNN finds AMX, which then faults (SIGILL) in the bf16 products of PyTorch, the oracle. It reads
# this when it is first loaded; wmtp computes in fp32 on CPUs.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

ROOT = Path(__file__).resolve().parents[1]


class Wmtp:
    """Runs the program; stdout holds results, stderr diagnostics."""

    def __init__(self, binary):
        self.binary = Path(binary)

    def run(self, *args, check=True, timeout=120, env=None, **options):
        """Returns the CompletedProcess; with `check`, an exit code other than 0 fails the test."""
        done = subprocess.run([str(self.binary), *map(str, args)], capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, **(env or {})}, **options)
        if check and done.returncode:
            pytest.fail(f"wmtp {' '.join(map(str, args))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def json_lines(self, *args, **options):
        """Every line of `wmtp --json ...` as a dict; a line that is no JSON object fails the test."""
        done = self.run("--json", *args, **options)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert all(isinstance(line, dict) and "type" in line for line in lines), done.stdout
        return lines

    def json(self, *args, **options):
        """The one result line of `wmtp --json ...`."""
        results = [line for line in self.json_lines(*args, **options) if line["type"] == "result"]
        assert len(results) == 1, results
        return results[0]

    def error(self, *args, code, **options):
        """The error line of a call that must end with `code`."""
        done = self.run("--json", *args, check=False, **options)
        assert done.returncode == code, f"ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        errors = [json.loads(line) for line in done.stdout.splitlines()]
        errors = [line for line in errors if line["type"] == "error"]
        assert len(errors) == 1 and errors[0]["code"] == code, done.stdout
        return errors[0]


@pytest.fixture(scope="session")
def wmtp():
    binary = Path(os.environ.get("WMTP_BIN", ROOT / "build/bin/wmtp"))
    if not binary.exists():
        pytest.fail(f"no program at {binary}: run make build, or set WMTP_BIN")
    return Wmtp(binary)


@pytest.fixture
def default_sighup():
    """Programs that the test starts have the disposition that a terminal gives them, under `nohup make test` too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
