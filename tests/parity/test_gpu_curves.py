"""bench/gpu_curves.py, on a CPU: the same curve as its twin of PyTorch FSDP2, and what it has measured is not measured again."""
import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bench/gpu_curves.py"


def test_a_curve_is_that_of_the_twin(wmtp, tmp_path):
    bundle = wmtp.binary.parent.parent
    words = [sys.executable, SCRIPT, bundle, tmp_path / "out", "--device", "cpu", "--preset", "micro-qwen3", "--steps", "40",
             "--seq", "64", "--jobs", "2", "--recipes", "twin,bf16"]
    environment = {key: value for key, value in os.environ.items() if key != "GPU_DEADLINE"}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(line) for line in (tmp_path / "out/curves.jsonl").open()]
    losses = {(record["recipe"], record["seed"]): record["losses"] for record in records}
    assert losses.keys() == {(recipe, seed) for recipe in ("twin", "bf16") for seed in (1, 2)}
    for seed in (1, 2):
        ours, theirs = losses["bf16", seed], losses["twin", seed]
        assert len(ours) == len(theirs) == 40 and ours != theirs
        other = losses["twin", 3 - seed]
        # Both compute in fp32: what tells them apart is far below what tells two seeds apart.
        assert sum(abs(a - b) for a, b in zip(ours, theirs)) < 0.1 * sum(abs(a - b) for a, b in zip(theirs, other))
    again = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment, timeout=300)
    assert again.returncode == 0 and "after 40 steps" not in again.stdout
    assert again.stdout.splitlines()[0].startswith("| run |")
    assert len((tmp_path / "out/curves.jsonl").read_text().splitlines()) == 4
