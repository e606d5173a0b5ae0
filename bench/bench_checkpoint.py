#!/usr/bin/env python3
"""Checkpoints: what a save costs a run, against memcpy, plain writes and torch.distributed.checkpoint.

  python bench/bench_checkpoint.py [--preset small] [--rounds 5] [--steps 40] [--every 20] [--out FOLDER]
One table: each measure, its figure, its goal. The peer saves tensors of the same names, shapes and dtypes into the same
folder. Run it on a quiet machine.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent
WMTP = os.environ.get("WMTP_BIN", str(BENCH.parent / "build/bin/wmtp"))


def result_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"bench_checkpoint: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--out", type=Path, help="on the disk to measure; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.out, prefix="bench-checkpoint-") as folder:
        folder = Path(folder)
        ours = result_of([WMTP, "--json", "bench", "checkpoint", "--out", folder, "--preset", args.preset, "--rounds",
                          args.rounds, "--steps", args.steps, "--every", args.every])
        newest = max(folder.glob("bench-*steps"), key=lambda path: int(path.name[6:-5]))
        peer = result_of([sys.executable, BENCH / "peer_dcp.py", newest, folder, "--rounds", args.rounds])
    assert abs(ours["bytes"] - peer["bytes"]) <= 0.001 * ours["bytes"], (ours["bytes"], peer["bytes"])
    size = ours["bytes"] / 1e6
    rows = [("training waits for an async save", f"{ours['blocked_s']:.3f} s = {ours['blocked_over_memcpy']:.2f} x memcpy", "<= 1.1 x"),
            ("  torch async_save", f"{peer['async_blocked_s']:.3f} s = {peer['async_blocked_s'] / ours['memcpy_s']:.2f} x memcpy", ""),
            ("save, committed", f"{ours['save_s']:.2f} s = {ours['speed_over_plain']:.2f} of plain write + fsync", ">= 0.85"),
            ("  torch save", f"{peer['save_s']:.2f} s = {ours['plain_s'] / peer['save_s']:.2f} of plain write + fsync", ""),
            ("  torch async_save until it is done", f"{peer['async_save_s']:.2f} s", ""),
            (f"run with {ours['saves']} saves in {2 * args.steps} steps", f"{100 * ours['slowdown']:+.1f} %", "<= +3.5 %")]
    print(f"{args.preset}: {size:.0f} MB of state, a step {ours['step_s']:.2f} s")
    for name, figure, goal in rows:
        print(f"{name:40} {figure:48} {goal}")


if __name__ == "__main__":
    main()
