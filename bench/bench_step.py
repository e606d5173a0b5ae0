#!/usr/bin/env python3
"""A training step on the CPU: wmtp against PyTorch (eager, the same shape, fp32), turn by turn in one run.

Prints one line per measurement and, per number of ranks, the ratio of the medians. Quiet machines only:
the load average is printed because the numbers mean nothing beside other work.
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


def wmtp_command(args, world):
    launch = [] if world == 1 else ["launch", "--nproc", str(world), "--"]
    return [WMTP, *launch, "bench", "step", "--device", "cpu", "--dtype", "fp32",
            "--strategy", "FULL_SHARD", *shape(args)]


def peer_command(args, world):
    start = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={world}", "--master_port=0"]
    return [*start, str(BENCH / "peer_fsdp2.py"), "--wrap", "none" if world == 1 else "fsdp2", "--device", "cpu",
            "--dtype", "fp32", "--ac", "0", "--compile", "0", *shape(args)]


def shape(args):
    return ["--preset", args.preset, "--batch", str(args.batch), "--seq", str(args.seq), "--steps", str(args.steps)]


def measure(command, world):
    threads = max(1, len(os.sched_getaffinity(0)) // world)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if '"step_s"' in line]
    if done.returncode or len(lines) != 1:
        sys.exit(f"bench_step: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2, help="turns of each side")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    print(f"{args.preset}, batch {args.batch}, {args.seq} tokens, fp32, load average {os.getloadavg()[0]:.1f}")
    for world in args.ranks:
        seconds = {"wmtp": [], "pytorch": []}
        for _ in range(args.rounds):
            for side, command in (("wmtp", wmtp_command), ("pytorch", peer_command)):
                result = measure(command(args, world), world)
                seconds[side].append(result["step_s"])
                print(f"  {world} rank(s)  {side:8s} {result['step_s']:8.3f} s/step  {result['tok_s_rank']:9.1f} tok/s"
                      f"  peak {result['peak_gib']:6.2f} GiB  loss {result['loss']:.4f}", flush=True)
        ratio = statistics.median(seconds["pytorch"]) / statistics.median(seconds["wmtp"])
        print(f"  {world} rank(s)  wmtp is {ratio:.2f} x as fast")


if __name__ == "__main__":
    main()
