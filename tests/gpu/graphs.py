#!/usr/bin/env python3
"""Steps replayed as CUDA graphs beside plain ones: python3 tests/gpu/graphs.py BUNDLE [STEPS]

Trains `small` on packed rows of the demo corpus, bf16, reproducible attention, 200 steps, three times:
  replayed   runtime.cuda_graphs: on
  plain      the same, but each step is computed as it would be recorded (failpoint step.graph)
  off        runtime.cuda_graphs: off, exact shapes: what a user has without the key
and then a critic of pairs, verifiable with a value head of its own and rho1 with `off` as reference, replayed and plain.
Losses and gradient norms of replayed and plain are equal to the last bit, at least 90 % of the steps are replayed, and losses of
off are within bf16's rounding. One JSON line per run with its tokens per second; exit 1 if a comparison fails.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WMTP = Path(sys.argv[1]).resolve() / "bin/wmtp"
STEPS = int([*sys.argv[2:], "200"][0])
CONFIG = """
experiment: {name: graphs, stage: baseline}
models: {policy: {path: small, tokenizer_path: demo, init: random, dtype: bf16}}
dataset: {train: demo/train.jsonl, max_length: 256, packing: true}
data_sampling: {n_samples: null}
training: {batch_size: 8, n_epochs: 1000, learning_rate: 1e-4, log_interval: 1}
checkpoint: {save_final: true, save_checkpoint_every: null, export_on_finish: none}
distributed: {fsdp: {param_dtype: bf16}}
runtime: {device: cuda, threads: 4, deterministic: true}
"""
STAGES = {"critic": ["training.backbone_frozen=false", "data_sampling.use_pairwise=true"],
          "verifiable": ["training.value.source=joint"], "rho1": ["models.reference.path=off"]}
failures = []


def wmtp(*words, **environment):
    done = subprocess.run([WMTP, *map(str, words)], capture_output=True, text=True, timeout=150, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"wmtp {' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def expect(what, holds):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        failures.append(what)


def train(name, graphs, *overrides, **environment):
    words = [word for override in [f"runtime.cuda_graphs={graphs}", *overrides] for word in ("--override", override)]
    said = wmtp("train", "--config", "graphs.yaml", "--defaults", "none", "--run-dir", name, "--max-steps", STEPS, *words, **environment)
    points = [json.loads(line) for line in Path(name, "metrics.jsonl").read_text().splitlines()]
    points = [point for point in points if "train/loss" in point]
    numbers = [(point["step"], point["train/loss"], point["train/grad_norm_pre_clip"]) for point in points]
    settled = points[len(points) // 2:]
    counts = re.search(r"(\d+) of (\d+) steps were replayed as CUDA graphs .*: (\d+) shapes came, (\d+) graphs", said)
    told = {"run": name, "steps": len(points), "first_loss": numbers[0][1], "loss": numbers[-1][1],
            "tok_s": round(statistics.median(point["perf/tokens_per_sec"] for point in settled)),
            "step_ms": statistics.median(point["perf/step_time_ms"] for point in settled)}
    if graphs == "on":
        if not counts:
            sys.exit(f"the run {name} does not say how many steps were replayed\n{said}")
        told.update(zip(("replayed", "of", "shapes", "recorded"), map(int, counts.groups())))
    if "cannot be recorded" in said:
        told["refused"] = next(line for line in said.splitlines() if "cannot be recorded" in line)
    print(json.dumps(told), flush=True)
    return told, numbers


def train_stage(stage):
    overrides = [f"experiment.stage={stage}", *STAGES[stage]]
    found, numbers = train(f"{stage}-replayed", "on", *overrides)
    _, expected = train(f"{stage}-plain", "on", *overrides, WMTP_FAILPOINT="step.graph:nth=1+=skip")
    return stage, found, numbers, expected


def first_difference(one, other):
    for (step, *mine), (_, *others) in zip(one, other):
        if mine != others:
            return f"first at step {step}: loss and norm {mine} and {others}"
    return f"{len(one)} and {len(other)} steps"


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    Path("graphs.yaml").write_text(CONFIG)
    wmtp("data", "demo", "--out", "demo")
    replayed, numbers = train("replayed", "on")
    plain, plain_numbers = train("plain", "on", WMTP_FAILPOINT="step.graph:nth=1+=skip")
    off, off_numbers = train("off", "off")
    stages = [train_stage(stage) for stage in STAGES]
    os.chdir("/")

expect("every step could be recorded" if "refused" not in replayed else replayed["refused"], "refused" not in replayed)
expect(f"{replayed['replayed']} of {replayed['of']} steps were replayed, 90 % at least", replayed["replayed"] >= 0.9 * replayed["of"])
expect("the plain run replayed none (a build with failpoints: not a release)", plain["replayed"] == 0)
expect(f"losses and norms of {STEPS} steps have the same bits, replayed and plain"
       + ("" if numbers == plain_numbers else f"; {first_difference(numbers, plain_numbers)}"),
       numbers == plain_numbers and len(numbers) == STEPS)
expect(f"the first loss {replayed['first_loss']} as without the key, {off['first_loss']}",
       abs(replayed["first_loss"] - off["first_loss"]) <= 0.02 * off["first_loss"])
expect(f"the loss falls from {replayed['first_loss']} to {replayed['loss']}", replayed["loss"] < replayed["first_loss"] - 0.1)
expect(f"the last loss {replayed['loss']} near that without the key, {off['loss']}", abs(replayed["loss"] - off["loss"]) <= 0.1 * off["loss"])
for stage, found, found_numbers, expected in stages:
    expect(f"{stage}: {found['replayed']} of {found['of']} steps were replayed, half of them at least", found["replayed"] >= 0.5 * found["of"])
    expect(f"{stage}: losses and norms have the same bits, replayed and plain"
           + ("" if found_numbers == expected else f"; {first_difference(found_numbers, expected)}"), found_numbers == expected)
print(f"tokens/s: replayed {replayed['tok_s']}, the same plain {plain['tok_s']}, without the key {off['tok_s']}")
sys.exit(1 if failures else 0)
