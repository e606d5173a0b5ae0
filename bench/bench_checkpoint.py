#!/usr/bin/env python3
"""Checkpoints: what a save costs a run, against memcpy, plain writes and torch.distributed.checkpoint.

  python bench/bench_checkpoint.py [--preset small] [--blocks 3] [--rounds 3] [--steps 40] [--every 40] [--out FOLDER]
Each block times `rounds` saves of wmtp, beside memcpy and plain write + fsync of the same bytes, then as many of the peer,
which saves tensors of the same names, shapes and dtypes into the same folder; figures are medians over all blocks. Then
training with and without saves, by turns. One table: each measure, its figure, its goal. About 5 minutes; run it on a
quiet machine.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

BENCH = Path(__file__).resolve().parent
WMTP = os.environ.get("WMTP_BIN", str(BENCH.parent / "build/bin/wmtp"))
MTBF_S = 3 * 3600  # a failure in three hours, for the advised interval


def result_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"bench_checkpoint: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[-1])


def pooled(results):
    """Medians of the lists, joined over the blocks."""
    lists = [key for key, value in results[0].items() if isinstance(value, list)]
    return {key: median(sum((result[key] for result in results), [])) for key in lists}


def save_rows(ours, peer):
    copy, plain = ours["memcpy_s"], ours["plain_s"]
    return [("memcpy of the state", f"{copy:.3f} s", ""),
            ("training waits for an async save", f"{ours['blocked_s']:.3f} s = {ours['blocked_s'] / copy:.2f} x memcpy", "<= 1.1 x"),
            ("  torch async_save", f"{peer['async_blocked_s']:.3f} s = {peer['async_blocked_s'] / copy:.2f} x memcpy", ""),
            ("plain write + fsync", f"{plain:.2f} s", ""),
            ("save, committed", f"{ours['save_s']:.2f} s = {plain / ours['save_s']:.2f} of plain write + fsync", ">= 0.85"),
            ("  torch save", f"{peer['save_s']:.2f} s = {plain / peer['save_s']:.2f} of plain write + fsync", ""),
            ("  torch async_save until it is done", f"{peer['async_save_s']:.2f} s", ""),
            ("save, until old checkpoints are removed", f"{ours['writer_s']:.2f} s", "")]


def run_rows(run, steps):
    interval = sum(run["saving_s"]) / run["saves"]
    lost = run["lost_s_per_save"]
    spread = sorted(100 * (saving / calm - 1) for saving, calm in zip(run["saving_s"], run["calm_s"]))
    advised = math.sqrt(2 * max(lost, 1e-3) * MTBF_S)
    return [(f"run with a save every {interval:.0f} s",
             f"{100 * run['slowdown']:+.1f} % (turns {spread[0]:+.1f} to {spread[-1]:+.1f} %)", "<= +3.5 %"),
            ("  training lost for each save", f"{lost:.2f} s", ""),
            (f"  at the advised interval, {advised:.0f} s", f"{100 * lost / advised:+.2f} %", ""),
            ("  a step without saves", f"{sum(run['calm_s']) / (len(run['calm_s']) * steps):.2f} s", "")]


def show(rows):
    for name, figure, goal in rows:
        print(f"{name:42} {figure:48} {goal}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="saves of a block")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40, help="of a turn")
    parser.add_argument("--every", type=int, default=40, help="steps between two saves")
    parser.add_argument("--out", type=Path, help="on the disk to measure; default: a temporary folder")
    args = parser.parse_args()
    ours, peers = [], []
    with tempfile.TemporaryDirectory(dir=args.out, prefix="bench-checkpoint-") as folder:
        bench = [WMTP, "--json", "bench", "checkpoint", "--preset", args.preset, "--out"]
        for block in range(args.blocks):
            place = Path(folder) / f"block-{block}"
            ours.append(result_of([*bench, place, "--rounds", args.rounds, "--steps", 0]))
            newest = max(place.glob("bench-*steps"), key=lambda path: int(path.name[6:-5]))
            peers.append(result_of([sys.executable, BENCH / "peer_dcp.py", newest, place, "--rounds", args.rounds]))
            shutil.rmtree(place)
        assert abs(ours[0]["bytes"] - peers[0]["bytes"]) <= 0.001 * ours[0]["bytes"], (ours[0]["bytes"], peers[0]["bytes"])
        print(f"{args.preset}: {ours[0]['bytes'] / 1e6:.0f} MB of state, medians of {args.blocks * args.rounds} saves")
        show(save_rows(pooled(ours), pooled(peers)))
        run = result_of([*bench, Path(folder) / "run", "--rounds", 1, "--turns", args.turns, "--steps", args.steps,
                         "--every", args.every])
    show(run_rows(run, args.steps))


if __name__ == "__main__":
    main()
