#!/usr/bin/env python3
"""HYBRID_SHARD on a GPU: python3 tests/gpu/groups.py BUNDLE

Four ranks on one GPU (gloo), `wmtp bench step` on the same batch again and again:
  one group of four          as FULL_SHARD, to the last digit; groups of one rank as NO_SHARD
  two groups of two          as FULL_SHARD within the rounding of another order of sums, in fp32, bf16, fp16, with bf16_sr,
                             adapters, accumulation and cpu_offload; the loss falls
One JSON line per run; exit 1 if a comparison fails.
"""
import json
import subprocess
import sys

WMTP = sys.argv[1] + "/bin/wmtp"
COMMON = ("bench step --device cuda --backend gloo --allow-shared-gpu --preset micro --seq 128 --batch 2 --lr 1e-3 --repeat-batch "
          "--warm 0 --steps 8").split()
failures = []


def run(strategy, group_size, *words):
    command = [WMTP, "launch", "--nproc", "4", "--max-restarts", "0", "--", *COMMON, "--strategy", strategy, "--group-size",
               str(group_size), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if '"step_s"' in line]
    if done.returncode or not lines:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    print(lines[-1])
    return json.loads(lines[-1])


def expect(what, holds):
    print(("ok      " if holds else "FAILED  ") + what)
    if not holds:
        failures.append(what)


def losses(result):
    return result["first_loss"], result["loss"]


for dtype in ("fp32", "bf16"):
    expect(f"one group is FULL_SHARD, {dtype}",
           losses(run("HYBRID_SHARD", 4, "--dtype", dtype)) == losses(run("FULL_SHARD", 1, "--dtype", dtype)))
    expect(f"groups of one are NO_SHARD, {dtype}",
           losses(run("HYBRID_SHARD", 1, "--dtype", dtype)) == losses(run("NO_SHARD", 1, "--dtype", dtype)))

for name, words, limit in (("fp32", ["--dtype", "fp32"], 1e-5),
                           ("fp32, accumulation", ["--dtype", "fp32", "--accumulation", "3"], 1e-5),
                           ("bf16", ["--dtype", "bf16"], 1e-2),
                           ("fp16", ["--dtype", "fp16"], 1e-2),
                           ("bf16_sr", ["--dtype", "bf16", "--precision", "bf16_sr"], 2e-2),
                           ("adapters", ["--dtype", "fp32", "--lora", "8"], 1e-5),
                           ("cpu_offload", ["--dtype", "fp32", "--cpu-offload"], 1e-4),
                           ("cpu_offload, accumulation", ["--dtype", "fp32", "--cpu-offload", "--accumulation", "3"], 1e-4)):
    grouped, full = run("HYBRID_SHARD", 2, *words), run("FULL_SHARD", 1, *words)
    expect(f"two groups of two, {name}: {grouped['loss']} beside {full['loss']}",
           abs(grouped["loss"] - full["loss"]) <= limit * abs(full["loss"]))
    expect(f"two groups of two, {name}: the loss falls", grouped["loss"] < grouped["first_loss"] - 0.01)

sys.exit(1 if failures else 0)
