#!/usr/bin/env python3
"""Ways to keep and compute a step on a GPU that must train alike: python3 tests/gpu/step_variants.py BUNDLE

Runs `wmtp bench step` on the same batch again and again and compares the losses:
  cpu_offload        against the run without it: the first losses equal, the last within 1e-4 (the optimizer runs on the CPU)
  fp16, loss scale   against fp32: within 2 %; every step applied but those that overflowed; the loss falls
  bf16_sr            against bf16 with fp32 masters: within 2 %; master and moments take half of the memory
  measured products  against the library's choice: within 2 %
  NF4 under LoRA     against LoRA on bf16: within 2 %, less memory; cpu_offload as without it, its first loss to the bit
  two ranks on one GPU (gloo), cpu_offload: as one rank with twice the batch, within 2e-2 (the batches differ)
One JSON line per run; exit 1 if a comparison fails.
"""
import json
import subprocess
import sys

WMTP = sys.argv[1] + "/bin/wmtp"
COMMON = "bench step --device cuda --preset small --seq 256 --lr 1e-4 --repeat-batch --warm 0 --steps 12".split()
failures = []


def run(*words, ranks=1, batch=4):
    launch = ["launch", "--nproc", str(ranks), "--max-restarts", "0", "--"] if ranks > 1 else []
    command = [WMTP, *launch, *COMMON, "--batch", str(batch), *words]
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


def close(a, b, relative):
    return abs(a - b) <= relative * abs(b)


for strategy in ("FULL_SHARD", "NO_SHARD"):
    for dtype in ("fp32", "bf16"):
        plain = run("--dtype", dtype, "--strategy", strategy)
        offloaded = run("--dtype", dtype, "--strategy", strategy, "--cpu-offload")
        name = f"cpu_offload, {strategy}, {dtype}"
        expect(f"{name}: first loss", close(offloaded["first_loss"], plain["first_loss"], 1e-6))
        limit = 1e-4 if dtype == "fp32" else 1e-2
        expect(f"{name}: last loss", close(offloaded["loss"], plain["loss"], limit))
        expect(f"{name}: less memory on the device", offloaded["peak_gib"] < plain["peak_gib"])
        expect(f"{name}: the loss falls", plain["loss"] < plain["first_loss"] - 0.1)

full = run("--dtype", "fp32")
half = run("--dtype", "fp16")
expect("fp16: losses as fp32", close(half["first_loss"], full["first_loss"], 0.02) and close(half["loss"], full["loss"], 0.02))
expect("fp16: the loss falls", half["loss"] < half["first_loss"] - 0.1)
expect("fp16: skipped steps are the overflows", half["loss_scale"] == 65536 / 2 ** half["skipped_steps"])

wide = run("--dtype", "bf16")
rounded = run("--dtype", "bf16", "--precision", "bf16_sr")
expect("bf16_sr: losses as fp32 masters", close(rounded["loss"], wide["loss"], 0.02))
expect("bf16_sr: 10 of 16 bytes a parameter", close(rounded["state_gib"], wide["state_gib"] * 10 / 16, 0.01))

measured = run("--dtype", "bf16", "--gemm-choice", "measured")
expect("measured products: losses as by the library's choice", close(measured["loss"], wide["loss"], 0.02))

adapters = run("--lora", "16")
upon_nf4 = run("--lora", "16", "--quantize", "nf4")
offloaded = run("--lora", "16", "--quantize", "nf4", "--cpu-offload")
expect("NF4: losses as upon bf16", close(upon_nf4["loss"], adapters["loss"], 0.02))
expect("NF4: less is kept", upon_nf4["state_gib"] < adapters["state_gib"])
expect("NF4, cpu_offload: first loss", offloaded["first_loss"] == upon_nf4["first_loss"])
expect("NF4, cpu_offload: last loss", close(offloaded["loss"], upon_nf4["loss"], 1e-2))

one = run("--dtype", "fp32", batch=4)
two = run("--dtype", "fp32", "--cpu-offload", "--backend", "gloo", "--allow-shared-gpu", ranks=2, batch=2)
expect("cpu_offload, two ranks: first loss", close(two["first_loss"], one["first_loss"], 2e-2))
expect("cpu_offload, two ranks: the loss falls", two["loss"] < two["first_loss"] - 0.1)
sys.exit(1 if failures else 0)
