#!/usr/bin/env python3
"""Steps in other precisions than bf16 beside it: python3 tests/gpu/step_precisions.py BUNDLE CASE [PRESET]

Runs `wmtp bench step` twice on the same batch again and again, in bf16 with fp32 masters and as CASE says:
  bf16_moments   losses within 2 %, 12 of 16 bytes a parameter (masters, moments, gradients)
  int8           losses within 2 %, fewer bytes a parameter than the 10 of bf16_sr
  tensorwise, rowwise   float8 products of the blocks: losses within 2 %
Every loss falls. One JSON line per run; exit 1 if a comparison fails.
"""
import json
import subprocess
import sys

bundle, case, preset = [*sys.argv[1:], "small"][:3]
COMMON = f"bench step --device cuda --preset {preset} --batch 4 --seq 256 --lr 1e-4 --repeat-batch --warm 0 --steps 12 --dtype bf16"
CASES = {"bf16_moments": "--precision bf16_moments", "int8": "--precision int8",
         "tensorwise": "--float8 tensorwise", "rowwise": "--float8 rowwise"}
failures = []


def run(words):
    command = [bundle + "/bin/wmtp", *COMMON.split(), *words.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if '"step_s"' in line]
    if done.returncode or not lines:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    print(lines[-1], flush=True)
    return json.loads(lines[-1])


def expect(what, holds):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        failures.append(what)


def close(name, relative):
    expect(f"{case}: {name} {run_of_case[name]} within {relative} of {plain[name]}",
           abs(run_of_case[name] - plain[name]) <= relative * abs(plain[name]))


run_of_case, plain = run(CASES[case]), run("")
share = run_of_case["state_gib"] / plain["state_gib"]
expect(f"{case}: the loss falls from {run_of_case['first_loss']} to {run_of_case['loss']}",
       run_of_case["loss"] < run_of_case["first_loss"] - 0.1)
expect(f"{case}: every step was applied", run_of_case["skipped_steps"] == 0)
close("first_loss", 0.02)
close("loss", 0.02)
if case == "bf16_moments":
    expect(f"bf16_moments: {share:.3f} of the state", abs(share - 12 / 16) <= 0.01)
if case == "int8":
    expect(f"int8: {share:.3f} of the state", share < 10 / 16)
sys.exit(1 if failures else 0)
