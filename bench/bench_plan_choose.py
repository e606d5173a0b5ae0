#!/usr/bin/env python3
"""Whether `wmtp plan --choose` finds the best settings: a sweep that is measured, and what the plan proposes of it.

  python bench/bench_plan_choose.py [--worlds 1,2] [--preset small] [--seq 256] [--batches 1,2,4,8] [--steps 2]
For each number of CPU ranks one row per recompute level and micro-batch, measured (the best of --rounds of `wmtp bench step`) and as
expected; then the proposal among the same settings, and what it is slower than the best measured one. Wanted: 5 % at most. The table is
for benchmarks/plan.md.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

WMTP = os.environ.get("WMTP_BIN", str(Path(__file__).resolve().parent.parent / "build/bin/wmtp"))
LEVELS = ["none", "light", "block"]
MOST_SLOWER = 0.05


def json_line(command, kind):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return next(line for line in map(json.loads, filter(str.strip, done.stdout.splitlines())) if line["type"] == kind)


def measure(args, world, level, batch):
    """Tokens/s of all ranks, the best of the rounds: other programs only ever make it slower."""
    launch = [] if world == 1 else ["launch", "--nproc", str(world), "--"]
    words = ["--preset", args.preset, "--device", "cpu", "--seq", str(args.seq), "--batch", str(batch), "--recompute", level,
             "--strategy", "FULL_SHARD", "--steps", str(args.steps)]
    return max(world * json_line([WMTP, "--json", *launch, "bench", "step", *words], "result")["tok_s_rank"]
               for _ in range(args.rounds))


def plan(args, world):
    """({(level, batch): expected tokens/s}, the proposal) of one call, which calibrates this machine."""
    line = json_line([WMTP, "--json", "plan", "--model", args.preset, "--gpu", "cpu", "--seq", str(args.seq), "--world-size",
                      str(world), "--sweep", "recompute=" + ",".join(LEVELS), "--sweep",
                      "batch_size=" + ",".join(map(str, args.batches)), "--choose"], "plan")
    expected = {(row["values"]["recompute"], int(row["values"]["batch_size"])): row["tokens_per_s"] for row in line["sweep"]
                if row.get("fits")}
    chosen = line["chosen"]
    return expected, (chosen["recompute"], chosen["batch_size"])


def run_world(args, world):
    expected, chosen = plan(args, world)
    print(f"\n{args.preset}, {world} CPU rank{'' if world == 1 else 's'}, rows of {args.seq} tokens\n")
    print("| recompute | batch | measured tokens/s | expected tokens/s | expected / measured |\n|---|---|---|---|---|")
    measured = {}
    for level, batch in expected:
        measured[level, batch] = measure(args, world, level, batch)
        here, said = measured[level, batch], expected[level, batch]
        print(f"| {level} | {batch} | {here:.4g} | {said:.4g} | {said / here:.3f} |", flush=True)
    best = max(measured, key=measured.get)
    slower = 1 - measured[chosen] / measured[best]
    print(f"\nchosen: {chosen[0]}, batch {chosen[1]}: {measured[chosen]:.4g} tokens/s; best measured: {best[0]}, batch {best[1]}: "
          f"{measured[best]:.4g}; slower by {100 * slower:.1f} % (at most {100 * MOST_SLOWER:.0f} % wanted)", flush=True)
    return slower <= MOST_SLOWER


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=numbers, default=[1, 2])
    parser.add_argument("--preset", default="small")
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--batches", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    return 0 if all([run_world(args, world) for world in args.worlds]) else 1


if __name__ == "__main__":
    sys.exit(main())
