#!/usr/bin/env python3
"""A training step on the CPU, wmtp against PyTorch on the same shape: alternating runs, the median of the pair ratios.

  python bench/bench_step.py [CASE...] [--pairs 10] [--steps 2]
One row per case: speed ratio (tokens/s, wmtp over PyTorch; above 1 is faster), memory ratio (peak resident, wmtp over
PyTorch), the target of each, and the medians of both sides.

Cases of wmtp against itself also run on a GPU (--device cuda --preset llama-mtp-7b --words "--batch 4 --seq 1024 --recompute block"):
weighted_over_uniform_STAGE: seconds of a weighted step over those of a uniform step on the same rows, alternating inside one process,
signals of the frozen model at hand; heads4_over_heads1: time with 4 heads over the FLOP-proportional time with 1; heads4_memory:
peak with 4 heads over the peak with 1 and the state of the 3 others.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
WMTP = os.environ.get("WMTP_BIN", str(BENCH.parent / "build/bin/wmtp"))


def wmtp(world, *words):
    launch = [] if world == 1 else ["launch", "--nproc", str(world), "--"]
    return world, [WMTP, *launch, "bench", "step", "--preset", "small", "--device", "cpu", *words]


def torch(world, *words, script="anchor_fsdp2.py"):
    start = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={world}", "--standalone"]
    return world, [*start, str(BENCH / script), "--preset", "small", "--device", "cpu", "--dtype", "fp32", "--ac", "0", *words]


ONE = ["--batch", "4", "--seq", "256"]
TWO = ["--batch", "1", "--seq", "256"]
# name -> (ours, theirs, least speed ratio, most memory ratio)
CASES = {
    "full": (wmtp(1, *ONE), torch(1, "--wrap", "none", *ONE), 1.15, 0.6),
    "mixed": (wmtp(1, "--rows", "mixed", *ONE), torch(1, "--wrap", "none", "--rows", "mixed", *ONE), 1.6, 0.6),
    "fsdp2": (wmtp(2, "--strategy", "FULL_SHARD", *TWO), torch(2, "--wrap", "fsdp2", *TWO), 1.3, 0.7),
    "ddp": (wmtp(2, "--strategy", "NO_SHARD", *TWO), torch(2, "--wrap", "ddp", *TWO), 0.99, None),
    "lora": (wmtp(1, "--lora", "8", *ONE), torch(1, "--wrap", "none", "--lora", "8", *ONE, script="peer_lora.py"), 1.15, 0.6),
    "full_over_no_shard": (wmtp(2, "--strategy", "FULL_SHARD", *TWO), wmtp(2, "--strategy", "NO_SHARD", *TWO), 0.90, None),
}


def weighted(stage):
    return lambda args: measure_ours(args, "--stage", stage, "--beside-uniform")["over_uniform"]


def heads_time(args):
    one, four = (measure_ours(args, "--heads", heads) for heads in ("1", "4"))
    return one["tflops"] / four["tflops"]


def heads_memory(args):
    one, four = (measure_ours(args, "--heads", heads) for heads in ("1", "4"))
    return four["peak_gib"] / (one["peak_gib"] + four["state_gib"] - one["state_gib"])


# name -> (ratio of one pair, most of it on a CPU, and on a GPU)
OWN_CASES = {
    "weighted_over_uniform_verifiable": (weighted("verifiable"), 1.05, 1.02),
    "weighted_over_uniform_rho1": (weighted("rho1"), 1.05, 1.02),
    "heads4_over_heads1": (heads_time, 1.10, 1.10),
    "heads4_memory": (heads_memory, 1.05, 1.05),
}


def measure_ours(args, *words):
    command = [WMTP, "bench", "step", "--preset", args.preset, "--device", args.device, *args.words.split(), *words]
    return measure((1, command), args.steps)


def run_own_case(name, args):
    ratio_of, cpu_goal, gpu_goal = OWN_CASES[name]
    goal = gpu_goal if args.device == "cuda" else cpu_goal
    ratios = [ratio_of(args) for _ in range(args.pairs)]
    ratio = statistics.median(ratios)
    print(f"| {name} | {ratio:.3f} (<= {goal}) | | | | {min(ratios):.3f}..{max(ratios):.3f} | {'ok' if ratio <= goal else 'MISSED'} |", flush=True)
    return ratio <= goal


def measure(side, steps):
    world, command = side
    threads = max(1, len(os.sched_getaffinity(0)) // world)
    done = subprocess.run([*command, "--steps", str(steps), "--warm", "1"], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if '"step_s"' in line]
    if done.returncode or len(lines) != 1:
        sys.exit(f"bench_step: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[0])


def run_case(name, args):
    ours, theirs, least_speed, most_memory = CASES[name]
    speed, memory, rates, peaks = [], [], ([], []), ([], [])
    for pair in range(args.pairs):
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        results = {side: measure((ours, theirs)[side], args.steps) for side in order}
        speed.append(results[0]["tok_s_rank"] / results[1]["tok_s_rank"])
        memory.append(results[0]["peak_gib"] / results[1]["peak_gib"])
        for side in (0, 1):
            rates[side].append(results[side]["tok_s_rank"])
            peaks[side].append(results[side]["peak_gib"])
    speed_ratio, memory_ratio = statistics.median(speed), statistics.median(memory)
    good = speed_ratio >= least_speed and (most_memory is None or memory_ratio <= most_memory)
    print(f"| {name} | {speed_ratio:.2f} (>= {least_speed}) | {memory_ratio:.2f} ({'<= ' + str(most_memory) if most_memory else '-'}) "
          f"| {statistics.median(rates[0]):.0f} / {statistics.median(rates[1]):.0f} "
          f"| {statistics.median(peaks[0]):.2f} / {statistics.median(peaks[1]):.2f} | {min(speed):.2f}..{max(speed):.2f} "
          f"| {'ok' if good else 'MISSED'} |", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join([*CASES, *OWN_CASES])} (all)")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu or cuda, of wmtp's cases against itself")
    parser.add_argument("--preset", default="small", help="of those cases")
    parser.add_argument("--words", default=" ".join(ONE), help="of `wmtp bench step` in those cases")
    args = parser.parse_args()
    print(f"preset {args.preset}, {args.device}, {args.pairs} alternating pairs of {args.steps} steps, load average {os.getloadavg()[0]:.1f}")
    print("| case | speed ratio | memory ratio | tok/s per rank | peak GiB | ratios seen | |\n|---|---|---|---|---|---|---|")
    good = [run_own_case(name, args) if name in OWN_CASES else run_case(name, args) for name in args.cases or [*CASES, *OWN_CASES]]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
