"""The memory plan against steps that run here, by what bench/bench_plan.py measures: within 5 % or 32 MiB. Memory is no timing, so a busy
machine changes nothing."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import bench_plan

CASES = [
    (1, "micro", "--stage baseline --recompute none"),
    (1, "micro", "--stage critic --train-backbone --recompute block"),
    (1, "micro-qwen3", "--stage rho1 --signals model --recompute light --lora 8"),
    (2, "micro", "--strategy FULL_SHARD --stage verifiable --signals joint"),
    (1, "small", "--stage baseline"),
    (1, "small", "--stage baseline --lora 8 --quantize nf4"),
]


@pytest.mark.parametrize("ranks,preset,words", CASES)
def test_the_plan_is_what_a_step_uses(wmtp, monkeypatch, ranks, preset, words):
    if not (wmtp.binary.parent / "wmtp-bench").exists():
        pytest.skip("no wmtp-bench in this build")
    monkeypatch.setattr(bench_plan, "WMTP", str(wmtp.binary))
    found = bench_plan.measure(ranks, preset, words.split(), threads=1, steps=1 if preset == "small" else 2)
    planned, used, holds = bench_plan.compare(found)
    assert holds, f"planned {planned:.1f} MiB ({found['plan_peak']}), used {used:.1f} MiB"


def test_memory_is_not_that_of_the_process_that_starts_it(wmtp):
    if not (wmtp.binary.parent / "wmtp-bench").exists():
        pytest.skip("no wmtp-bench in this build")
    command = [str(wmtp.binary), "--json", "bench", "step", "--device", "cpu", "--preset", "micro", "--batch", "1", "--seq", "16",
               "--steps", "1", "--warm", "0"]
    start = f"import subprocess, sys; held = b'x' * (1 << 30); sys.exit(subprocess.run({command!r}).returncode)"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert 0 < found["base_gib"] < found["peak_gib"] < 1


def test_the_bound():
    def holds(planned_mib, used_mib):
        return bench_plan.compare({"plan_gib": planned_mib / 1024, "peak_gib": (100 + used_mib) / 1024, "base_gib": 100 / 1024})[2]
    assert holds(100, 131) and not holds(100, 133) and holds(131, 100) and not holds(133, 100)
    assert holds(1049, 1000) and not holds(1051, 1000) and not holds(949, 1000)


def test_signals_that_a_stage_has_not(wmtp):
    if not (wmtp.binary.parent / "wmtp-bench").exists():
        pytest.skip("no wmtp-bench in this build")
    assert "rho1 has none" in wmtp.error("bench", "step", "--stage", "rho1", "--signals", "joint", code=78)["message"]
    assert "always trains it" in wmtp.error("bench", "step", "--train-backbone", code=78)["message"]
