#!/usr/bin/env python3
"""What the optimizer's precision costs: losses after some hundred steps, bytes of the state, time of a step.

  python bench/bench_precision.py [--steps 500] [--seeds 1 2] [--precision NAME...] [--threads 1] [--model tiny|small] [--losses-only]
Every precision of training.optimizer.precision trains the same small model from the same drawn weights on the same generated text
(`wmtp data demo`, which can be learnt), once per seed of weights, order and rounding. The loss is the mean of the last 25 steps. Beside
the difference to fp32 stands the seed spread, the distance between the two seeds of fp32: a difference below it cannot be told from
another seed. The model is one of 64 features and 4 blocks, or the preset `small` of 60 M parameters. Bytes and seconds are those of
`wmtp bench step` with the preset `small`, batch 1 x 64.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WMTP = os.environ.get("WMTP_BIN", str(Path(__file__).resolve().parent.parent / "build/bin/wmtp"))
PRECISIONS = ["fp32", "bf16_moments", "bf16_sr", "int8"]
LAST = 25
CONFIG = """
experiment: {{name: precision, stage: baseline}}
models:
  policy: {{path: {path}, tokenizer_path: {data}, init: random, dtype: fp32, params: {params}}}
dataset: {{train: {data}/train.jsonl, max_length: 96}}
training: {{n_epochs: 1000, max_steps: {steps}, batch_size: 4, learning_rate: {learning_rate}, log_interval: 1,
            lr_scheduler: {{type: cosine, warmup_ratio: 0.05, min_lr_ratio: 0.1}}}}
checkpoint: {{save_checkpoint_every: null, export_on_finish: none}}
runtime: {{device: cpu, cache_dir: {data}/cache, threads: {threads}}}
"""


MODELS = {"tiny": {"path": "micro", "learning_rate": "2e-3",
                   "params": "{dim: 64, n_layers: 4, n_heads: 4, n_kv_heads: 2, head_dim: 16, ffn_dim: 192}"},
          "small": {"path": "small", "learning_rate": "5e-4", "params": "{}"}}


def wmtp(*words):
    done = subprocess.run([WMTP, "--json", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"wmtp {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def final_loss(folder, config, precision, seed):
    run_dir = folder / f"{precision}-{seed}"
    wmtp("train", "--config", config, "--defaults", "none", "--run-dir", run_dir, "--override", f"runtime.seed={seed}", "--override",
         f"data_sampling.seed={seed}", "--override", f"training.optimizer.precision={precision}")
    points = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    losses = [point["train/loss"] for point in points if "train/loss" in point]
    return sum(losses[-LAST:]) / LAST


def step_of(precision, threads):
    result = [line for line in wmtp("bench", "step", "--preset", "small", "--batch", 1, "--seq", 64, "--steps", 3, "--warm", 1,
                                    "--threads", threads, "--precision", precision) if line["type"] == "result"]
    return result[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--losses-only", action="store_true")
    args = parser.parse_args()
    if args.steps < LAST:
        parser.error(f"--steps {args.steps}: the loss is the mean of the last {LAST}")
    losses = {}
    with tempfile.TemporaryDirectory(prefix="wmtp-precision-") as name:
        folder = Path(name)
        wmtp("data", "demo", "--out", folder / "data", "--rows", 2000, "--seed", 3)
        config = folder / "precision.yaml"
        config.write_text(CONFIG.format(data=folder / "data", steps=args.steps, threads=args.threads, **MODELS[args.model]))
        print("| precision | " + " | ".join(f"seed {seed}" for seed in args.seeds) + " | mean | mean - fp32 | seed spread of fp32 |")
        print("|---|" + "---|" * (len(args.seeds) + 3), flush=True)
        for precision in args.precision:
            losses[precision] = [final_loss(folder, config, precision, seed) for seed in args.seeds]
            mean = sum(losses[precision]) / len(args.seeds)
            row = [f"{loss:.4f}" for loss in losses[precision]] + [f"{mean:.4f}"]
            if "fp32" in losses:
                wide = losses["fp32"]
                row += [f"{mean - sum(wide) / len(wide):+.4f}", f"{max(wide) - min(wide):.4f}"]
            else:
                row += ["", ""]
            print(f"| {precision} | " + " | ".join(row) + " |", flush=True)
    if args.losses_only:
        return 0
    print("\n| precision | state, MiB | bytes a parameter | peak, MiB | plan, MiB | step, ms |\n|---|---|---|---|---|---|", flush=True)
    for precision in args.precision:
        step = step_of(precision, args.threads)
        state = step["state_gib"] * 1024
        print(f"| {precision} | {state:.1f} | {step['state_gib'] * 2**30 / step['params']:.2f} | "
              f"{(step['peak_gib'] - step['base_gib']) * 1024:.0f} | {step['plan_gib'] * 1024:.0f} | {step['step_s'] * 1000:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
