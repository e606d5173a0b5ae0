#!/usr/bin/env python3
"""The memory plan, before its slack, against what steps on this CPU use: one row per case.

  python bench/bench_plan.py [--preset PRESET...] [--part WORD...] [--threads 1]
Measured: the peak of the process's resident memory (of rank 0) over what it was before the model was built. A case holds if plan and
measurement are within 5 % or 32 MiB of each other. Cases: every stage, source of signals, strategy, level of recomputation, LoRA and
precision of `wmtp bench step`; --part picks those whose words contain all that is given.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

WMTP = os.environ.get("WMTP_BIN", str(Path(__file__).resolve().parent.parent / "build/bin/wmtp"))
SHAPES = {"micro": ["--batch", "8", "--seq", "512"], "micro-llama": ["--batch", "8", "--seq", "512"],
          "micro-qwen3": ["--batch", "8", "--seq", "512"], "small": ["--batch", "1", "--seq", "128"]}
LEVELS = ["none", "light", "block"]
STAGES = [
    ["--stage", "baseline"],
    ["--stage", "baseline", "--accumulation", "3"],
    ["--stage", "critic"],
    ["--stage", "critic", "--train-backbone"],
    ["--stage", "verifiable"],
    ["--stage", "verifiable", "--signals", "model"],
    ["--stage", "verifiable", "--signals", "joint"],
    ["--stage", "rho1"],
    ["--stage", "rho1", "--signals", "model"],
]
STRATEGIES = [["--strategy", "NO_SHARD"], ["--strategy", "SHARD_GRAD_OP"], ["--strategy", "FULL_SHARD"],
              ["--strategy", "HYBRID_SHARD", "--group-size", "1"], ["--strategy", "HYBRID_SHARD", "--group-size", "2"]]


def cases():
    """(ranks, words) of every case: one rank in every stage, level and LoRA; two ranks in every strategy."""
    for stage in STAGES:
        for level in LEVELS:
            for lora in ([], ["--lora", "8"]):
                yield 1, [*stage, "--recompute", level, *lora]
    for precision in ("bf16_moments", "bf16_sr", "int8"):
        yield 1, ["--stage", "baseline", "--precision", precision]
    for strategy in STRATEGIES:
        for more in ([], ["--lora", "8"], ["--recompute", "block"], ["--stage", "rho1", "--signals", "model"]):
            yield 2, [*strategy, *more]


def measure(ranks, preset, words, threads, steps=2):
    """The last line of `wmtp bench step`, as it reports rank 0."""
    launch = ["launch", "--nproc", str(ranks), "--max-restarts", "0", "--"] if ranks > 1 else []
    command = [WMTP, *launch, "bench", "step", "--device", "cpu", "--preset", preset, *SHAPES[preset], *words,
               "--threads", str(threads), "--steps", "1", "--warm", str(steps - 1)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if '"step_s"' in line]
    if done.returncode or len(lines) != 1:
        sys.exit(f"bench_plan: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[0])


def compare(found):
    """(planned MiB, measured MiB, whether they are within 5 % or 32 MiB)"""
    planned, used = found["plan_gib"] * 1024, (found["peak_gib"] - found["base_gib"]) * 1024
    return planned, used, abs(planned - used) <= max(0.05 * used, 32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--part", nargs="+", default=[], help="words that a case must contain")
    parser.add_argument("--threads", type=int, default=1, help="of a rank")
    args = parser.parse_args()
    print("| preset | ranks | case | peak at | plan, MiB | measured, MiB | plan / measured | |\n|---|---|---|---|---|---|---|---|")
    good = True
    for preset in args.preset:
        for ranks, words in cases():
            text = " ".join(words)
            if not all(part in f"{preset} {ranks} {text}" for part in args.part):
                continue
            found = measure(ranks, preset, words, args.threads)
            planned, used, holds = compare(found)
            good = good and holds
            print(f"| {preset} | {ranks} | {text} | {found['plan_peak']} | {planned:.1f} | {used:.1f} | {planned / used:.3f} "
                  f"| {'ok' if holds else 'MISSED'} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
