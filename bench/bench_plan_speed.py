#!/usr/bin/env python3
"""The tokens/s that `wmtp plan` expects of this machine's CPU against those that are measured, case by case.

  python bench/bench_plan_speed.py [CASE...] [--rounds 1] [--write]
`wmtp bench step --expect` calibrates for 2 s and then measures, in one process after the other; `train` rows run the real
program on text and are set beside what the calibration of the case before them expects. Goal: 15 % each; ends with 1 if a
row misses it. Under 6 minutes on two quiet cores. A table of a busy machine says nothing: see the load average it prints.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent
WMTP = os.environ.get("WMTP_BIN", str(BENCH.parent / "build/bin/wmtp"))
PAGE = BENCH.parent / "benchmarks/plan_speed.md"
BEGIN, END = "<!-- table of bench_plan_speed.py -->\n", "<!-- end of the table -->\n"
GOAL = 0.15
MICRO = ["--preset", "micro", "--batch", "8", "--seq", "128", "--steps", "20", "--warm", "3"]
QWEN = ["--preset", "micro-qwen3", *MICRO[2:]]
SMALL = ["--preset", "small", "--batch", "2", "--seq", "256", "--steps", "3", "--warm", "1"]
SMALL_RANK = ["--preset", "small", "--batch", "1", *SMALL[4:]]

# name -> (ranks, words of `bench step`)
STEPS = {
    "micro": (1, MICRO),
    "micro, recompute light": (1, [*MICRO, "--recompute", "light"]),
    "micro, recompute block": (1, [*MICRO, "--recompute", "block"]),
    "micro, LoRA 8": (1, [*MICRO, "--lora", "8"]),
    "micro, 4 micro-batches": (1, [*MICRO, "--accumulation", "4"]),
    "micro, mixed rows": (1, [*MICRO, "--rows", "mixed"]),
    "micro, verifiable": (1, [*MICRO, "--stage", "verifiable"]),
    "micro, rho1": (1, [*MICRO, "--stage", "rho1"]),
    "micro, critic": (1, [*MICRO, "--stage", "critic"]),
    "micro-qwen3": (1, QWEN),
    "micro, 2 ranks FULL_SHARD": (2, [*MICRO, "--strategy", "FULL_SHARD"]),
    "small": (1, SMALL),
    "small, recompute light": (1, [*SMALL, "--recompute", "light"]),
    "small, recompute block": (1, [*SMALL, "--recompute", "block"]),
    "small, LoRA 8": (1, [*SMALL, "--lora", "8"]),
    "small, critic": (1, [*SMALL, "--stage", "critic"]),
    "small, 2 ranks FULL_SHARD": (2, [*SMALL_RANK, "--strategy", "FULL_SHARD"]),
    "small, 2 ranks SHARD_GRAD_OP": (2, [*SMALL_RANK, "--strategy", "SHARD_GRAD_OP"]),
    "small, 2 ranks NO_SHARD": (2, [*SMALL_RANK, "--strategy", "NO_SHARD"]),
}
# name -> (case whose step it runs, preset, heads)
TRAINS = {
    "train micro": ("micro", "micro", 4),
    "train micro-qwen3": ("micro-qwen3", "micro-qwen3", 1),
    "train micro, 2 ranks FULL_SHARD": ("micro, 2 ranks FULL_SHARD", "micro", 4),
}


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"bench_plan_speed: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def launched(ranks):
    return [WMTP] if ranks == 1 else [WMTP, "launch", "--nproc", str(ranks), "--"]


def step_row(ranks, words):
    """(expected, measured) tokens/s of a rank."""
    text = run([*launched(ranks), "bench", "step", "--device", "cpu", "--expect", *words])
    lines = [line[line.index("{"):] for line in text.splitlines() if '"step_s"' in line]
    result = json.loads(lines[-1])
    return result["expected_tok_s_rank"], result["tok_s_rank"]


def train_row(ranks, preset, heads):
    """Measured tokens/s of a rank of a real run on text, whose rows are all full."""
    with tempfile.TemporaryDirectory() as folder:
        run([WMTP, "data", "demo", "--out", "demo"], cwd=folder)
        config = {
            "experiment": {"name": "speed", "stage": "baseline"},
            "models": {"policy": {"path": preset, "tokenizer_path": "demo", "init": "random", "n_future_tokens": heads}},
            "dataset": {"train": "demo/text.txt", "format": "text", "max_length": 128},
            "training": {"batch_size": 8, "max_steps": 60, "learning_rate": 1e-3, "log_interval": 10},
            "checkpoint": {"save_every_steps": 1000},
            "distributed": {"fsdp": {"sharding_strategy": "FULL_SHARD"}},
            "runtime": {"device": "cpu"},
        }
        Path(folder, "speed.yaml").write_text(json.dumps(config))  # JSON is YAML
        run([*launched(ranks), "train", "--config", "speed.yaml", "--run-dir", "run"], cwd=folder)
        records = [json.loads(line) for line in Path(folder, "run/metrics.jsonl").read_text().splitlines()]
        rates = [record["perf/tokens_per_sec"] for record in records if "perf/tokens_per_sec" in record]
        return statistics.median(rates[1:]) / ranks


def rows(names, rounds):
    """(name, ranks, expected, measured), the medians of the rounds."""
    expected_of = {}
    for name in names:
        if name in STEPS:
            ranks, words = STEPS[name]
            pairs = [step_row(ranks, words) for _ in range(rounds)]
            expected_of[name] = statistics.median(expected for expected, _ in pairs)
            yield name, ranks, expected_of[name], statistics.median(measured for _, measured in pairs)
        else:
            case, preset, heads = TRAINS[name]
            ranks, words = STEPS[case]
            expected = expected_of.get(case) or step_row(ranks, words)[0]
            yield name, ranks, expected, statistics.median(train_row(ranks, preset, heads) for _ in range(rounds))


def write(table):
    page = PAGE.read_text()
    head, tail = page[:page.index(BEGIN) + len(BEGIN)], page[page.index(END):]
    PAGE.write_text(head + table + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="names of rows (all)")
    parser.add_argument("--rounds", type=int, default=1, help="of each row; medians count")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    args = parser.parse_args()
    known = [*STEPS, *TRAINS]
    if unknown := [name for name in args.cases if name not in known]:
        sys.exit(f"bench_plan_speed: no row called {', '.join(unknown)}; there are: {'; '.join(known)}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=BENCH).stdout.strip()
    lines = ["| case | ranks | expected, tok/s of a rank | measured | error | |", "|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    good = []
    for name, ranks, expected, measured in rows(args.cases or known, args.rounds):
        error = expected / measured - 1
        good.append(abs(error) <= GOAL)
        verdict = "PASS" if good[-1] else "FAIL"
        lines.append(f"| {name} | {ranks} | {expected:.0f} | {measured:.0f} | {100 * error:+.1f} % | {verdict} |")
        print(lines[-1], flush=True)
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    lines.insert(0, f"Commit {commit}, {cores} cores, load average {load:.1f} at the end; {sum(good)} of {len(good)} rows within 15 %.\n")
    print(lines[0])
    if args.write:
        write("\n".join(lines) + "\n")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
