#!/usr/bin/env python3
"""Speed and memory of a training step on one GPU beside PyTorch FSDP2, in parts that each end within nine minutes.

  bench/gpu.sh BUNDLE OUT PART [PART ...]      PART: a name of --list
  python3 bench/gpu_records.py --list | --table OUT

A part is a few rows; a row is measured from up to three sides, one after the other in the same call: `wmtp`, `peer` (the
strongest form of PyTorch 2.11 FSDP2 that a user would run: compiled blocks and loss) and `floor` (the step's products and
attention alone, gemm_bound.py). Every measurement is one line of OUT/records.jsonl: command, commit, GPU, clock, power and
the program's own result. What is there already is not measured again, so a part that was cut short goes on where it ended
(exit 75: call it again). The table with the goals is printed at the end, and by --table; a goal that is missed says by how
much. A failed measurement is a line too: its goals are missed, and it is tried again with the next call.
"""
import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PART_SECONDS = 530  # of the ten minutes that a call may take
CUT_SHORT = 75


@dataclasses.dataclass
class Goal:
    """`figure` of the row's own side, alone or over that of `other` (a side, or another row's name), against `bound`."""
    figure: str
    at_least: bool
    bound: float
    other: str = ""

    def text(self):
        what = self.figure + (f" / {self.other}'s" if self.other else "")
        return f"{what} {'>=' if self.at_least else '<='} {self.bound:g}"


@dataclasses.dataclass
class Row:
    name: str
    part: str
    wmtp: str                   # flags of `wmtp bench step`
    peer: str = ""              # flags of anchor_fsdp2.py; empty: no peer
    floor: str = ""             # flags of gemm_bound.py
    goals: tuple = ()
    ranks: int = 1
    seconds: int = 100          # limit of one measurement
    peer_seconds: int = 170


def speed(bound, other=""):
    return Goal("tok_s_rank", True, bound, other)


def memory(bound, other=""):
    return Goal("peak_gib", False, bound, other)


SEVEN = "--preset llama-mtp-7b --batch 4 --seq 2048"
EVERY_MATRIX = "--lora-targets q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
QWEN = "--preset qwen3-0.6b --batch 16 --seq 2048"
LONG = "--preset qwen3-0.6b --batch 2 --seq 8192"
STAGES = "--preset llama-mtp-7b --batch 4 --seq 1024 --recompute block"
PEER = "--ac 0 --compile 1 --steps 8 --warm 3"
OURS = "--steps 10 --warm 3"
ROWS = [
    Row("6.7B light", "seven", f"{SEVEN} --recompute light {OURS}", f"{SEVEN} {PEER}", SEVEN,
        (speed(13000), memory(0.93, "peer"))),
    Row("6.7B none", "seven", f"{SEVEN} --recompute none {OURS}", goals=(memory(1.0, "6.7B light peer"),)),
    Row("6.7B bf16_sr", "seven_sr", f"{SEVEN} --recompute light --precision bf16_sr {OURS}",
        goals=(speed(13300), memory(75))),
    Row("6.7B offload", "offload", f"{SEVEN} --recompute block --cpu-offload --steps 4 --warm 2", seconds=200,
        goals=(speed(0.6, "6.7B block"),)),
    Row("6.7B block", "offload", f"{SEVEN} --recompute block {OURS}"),
    Row("0.6B none", "qwen", f"{QWEN} --recompute none {OURS}", f"{QWEN} {PEER}", QWEN,
        (speed(112000), memory(0.74, "peer"))),
    Row("0.6B light", "qwen", f"{QWEN} --recompute light {OURS}",
        goals=(speed(0.97, "0.6B none"), memory(0.61, "0.6B none peer"))),
    Row("0.6B 2 x 8192", "qwen_long", f"{LONG} --recompute none {OURS}", f"{LONG} {PEER}", LONG, (speed(74000),)),
    Row("6.7B LoRA 64", "lora", f"{SEVEN} --lora 64 --recompute none {OURS}", goals=(speed(19300), memory(37.5))),
    Row("6.7B LoRA 64 light", "lora", f"{SEVEN} --lora 64 --recompute light {OURS}", goals=(memory(36),)),
    Row("6.7B LoRA 64 on NF4", "nf4", f"--preset llama-2-7b --batch 1 --seq 2048 --lora 64 {EVERY_MATRIX} --quantize nf4 "
        f"--recompute block {OURS}", goals=(memory(9),)),
    Row("0.6B LoRA 16", "lora", f"{QWEN} --lora 16 --recompute none {OURS}", goals=(speed(134000),)),
    Row("6.7B on 4 ranks", "ranks", f"{SEVEN} --recompute block --backend gloo --allow-shared-gpu --steps 1 --warm 0",
        ranks=4, seconds=400, goals=(memory(30.5),)),
    Row("verifiable", "stages", f"{STAGES} --stage verifiable --beside-uniform {OURS}", seconds=150,
        goals=(Goal("over_uniform", False, 1.02),)),
    Row("rho1", "stages", f"{STAGES} --stage rho1 --beside-uniform {OURS}", seconds=150,
        goals=(Goal("over_uniform", False, 1.02),)),
    Row("4 heads", "heads", f"{STAGES} {OURS}", goals=(Goal("tflops", True, 1 / 1.08, "1 head"),)),
    Row("1 head", "heads", f"{STAGES} --heads 1 {OURS}"),
]


def commands(row, bundle):
    """side -> (command, limit in seconds), the sides that the row has."""
    wmtp = os.path.join(bundle, "bin/wmtp")
    launch = [wmtp, "launch", "--nproc", str(row.ranks), "--max-restarts", "0", "--"] if row.ranks > 1 else [wmtp]
    sides = {"wmtp": ([*launch, "bench", "step", "--device", "cuda", *row.wmtp.split()], row.seconds)}
    if row.peer:
        script = os.path.join(HERE, "anchor_fsdp2.py")
        sides["peer"] = (["python3", script, "--device", "cuda", *row.peer.split()], row.peer_seconds)
    if row.floor:
        sides["floor"] = (["python3", os.path.join(HERE, "gemm_bound.py"), *row.floor.split()], 60)
    return sides


def last_json(text):
    """The last result in the output: a line may have a prefix (a launcher's)."""
    found = None
    for line in text.splitlines():
        try:
            value = json.loads(line[line.index("{"):])
        except ValueError:
            continue
        if "step_s" in value or "bound_tok_s" in value:
            found = value
    return found


def output_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError:
        return ""


def machine_state():
    """GPU, driver, and clock and power as they are just after a measurement."""
    query = "name,driver_version,clocks.sm,power.draw,temperature.gpu"
    return output_of(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]).splitlines()[:1]


def measure(row, side, command, limit, out, commit):
    record = {"row": row.name, "side": side, "commit": commit, "command": " ".join(command[1:] if side == "wmtp" else command)}
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        record["result"], record["rc"], text = last_json(done.stdout), done.returncode, done.stderr
    except subprocess.TimeoutExpired as late:
        record["result"], record["rc"], text = None, f"over {limit} s", (late.stderr or b"").decode(errors="replace")
    if record["rc"] != 0 or record["result"] is None:
        record["result"] = None
        record["error"] = text.strip().splitlines()[-3:]
    record["seconds"] = round(time.monotonic() - started, 1)
    record["gpu"] = machine_state()
    with open(os.path.join(out, "records.jsonl"), "a") as file:
        file.write(json.dumps(record) + "\n")
    print(f"{row.name}, {side}: {'measured' if record['result'] else 'FAILED (' + str(record['rc']) + ')'} "
          f"in {record['seconds']} s", flush=True)


def read_records(out):
    """(row, side) -> the last record that has a result, else the last one."""
    records = {}
    path = os.path.join(out, "records.jsonl")
    for line in open(path) if os.path.exists(path) else []:
        record = json.loads(line)
        key = record["row"], record["side"]
        if record["result"] or not records.get(key, {}).get("result"):
            records[key] = record
    return records


def figure_of(records, row, side, figure):
    result = records.get((row, side), {}).get("result") or {}
    return result.get("bound_tok_s") if side == "floor" and figure == "tok_s_rank" else result.get(figure)


def other_figure(records, row, goal):
    """`other` is a side of this row, another row, or another row and a side of it."""
    if goal.other in ("peer", "floor"):
        return figure_of(records, row.name, goal.other, goal.figure)
    for side in ("peer", "floor"):
        if goal.other.endswith(" " + side):
            return figure_of(records, goal.other[:-len(side) - 1], side, goal.figure)
    return figure_of(records, goal.other, "wmtp", goal.figure)


def verdict(records, row, goal):
    ours = figure_of(records, row.name, "wmtp", goal.figure)
    other = other_figure(records, row, goal) if goal.other else 1
    if ours is None or not other:
        return f"{goal.text()}: not measured"
    value = ours / other
    met = value >= goal.bound if goal.at_least else value <= goal.bound
    return f"{goal.text()}: {value:.4g}, " + ("met" if met else f"missed by {abs(value / goal.bound - 1):.1%}")


def table(out):
    records = read_records(out)
    lines = ["| row | wmtp tok/s | peak GiB | peer tok/s | peak GiB | floor tok/s | goals |", "|---|---|---|---|---|---|---|"]

    def cell(row, side, figure, form):
        value = figure_of(records, row.name, side, figure)
        return form.format(value) if value is not None else "-"
    for row in ROWS:
        if not any((row.name, side) in records for side in ("wmtp", "peer", "floor")):
            continue
        goals = "; ".join(verdict(records, row, goal) for goal in row.goals)
        lines.append(f"| {row.name} | {cell(row, 'wmtp', 'tok_s_rank', '{:,.0f}')} | {cell(row, 'wmtp', 'peak_gib', '{:.1f}')} | "
                     f"{cell(row, 'peer', 'tok_s_rank', '{:,.0f}')} | {cell(row, 'peer', 'peak_gib', '{:.1f}')} | "
                     f"{cell(row, 'floor', 'tok_s_rank', '{:,.0f}')} | {goals} |")
    return "\n".join(lines)


def run(bundle, out, parts):
    os.makedirs(out, exist_ok=True)
    commit = output_of([os.path.join(bundle, "bin/wmtp"), "version"]).splitlines()[:1]
    started, cut = time.monotonic(), False
    for row in (row for row in ROWS if row.part in parts):
        for side, (command, limit) in commands(row, bundle).items():
            if read_records(out).get((row.name, side), {}).get("result"):
                continue
            if time.monotonic() - started + limit > PART_SECONDS:
                cut = True
                continue
            measure(row, side, command, limit, out, commit)
    print(table(out))
    if cut:
        print("cut short before the call's limit of time: call the same part again")
    return CUT_SHORT if cut else 0


def main():
    names = list(dict.fromkeys(row.part for row in ROWS))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the parts and their rows")
    parser.add_argument("--table", metavar="OUT", help="the table of what OUT holds")
    parser.add_argument("words", nargs="*", metavar="BUNDLE OUT PART")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{part}: " + ", ".join(row.name for row in ROWS if row.part == part) for part in names))
        return 0
    if args.table:
        print(table(args.table))
        return 0
    if len(args.words) < 3:
        parser.error("BUNDLE, OUT and at least one PART are needed; --list names the parts")
    bundle, out, *parts = args.words
    if unknown := [part for part in parts if part not in names]:
        parser.error(f"no part {', '.join(unknown)}; there are correct, {', '.join(names)}")
    return run(os.path.abspath(bundle), out, parts)


if __name__ == "__main__":
    sys.exit(main())
