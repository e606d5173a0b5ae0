#!/usr/bin/env python3
"""Speed and memory of a training step on one GPU beside PyTorch FSDP2, in parts that each end within nine minutes.

  bench/gpu.sh BUNDLE OUT PART [PART ...]      PART: a name of --list
  python3 bench/gpu_records.py --list | --table OUT

A part is a few rows of gpu_rows.py; a row is measured from up to three sides, one after the other in the same call: `wmtp`, `peer`
(the strongest form of PyTorch 2.11 FSDP2 that a user would run: compiled blocks and loss, torchao where ours is 8-bit) and `floor`
(the step's products and attention alone, gemm_bound.py). Every measurement is one line of OUT/records.jsonl: command, commit, GPU,
clock, power and the program's own result. What is there already is not measured again, so a call that was cut short goes on where
it ended (exit 75: call it again); what failed is a line too, its goals are missed, and it is tried again after all that was not
tried yet. The table with the goals is printed at the end, and by --table; a goal that is missed says by how much. torchao is taken
from $TORCHAO, the folder of its unpacked wheel, or from Python's own packages; a peer that needs it and finds none is not measured.
With GPU_PROFILE=1 each of our rows on one rank records one step more, after the timed ones: OUT/profiles/<row>.txt has what it said and
all that ran on the GPU, by time.
"""
import argparse
import importlib.machinery
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from gpu_rows import ROWS

HERE = os.path.dirname(os.path.abspath(__file__))
PART_SECONDS = 530  # of the ten minutes that a call may take
CUT_SHORT = 75


def commands(row, bundle):
    """side -> (command, limit in seconds), the sides that the row has."""
    wmtp = os.path.join(bundle, "bin/wmtp")
    launch = [wmtp, "launch", "--nproc", str(row.ranks), "--max-restarts", "0", "--"] if row.ranks > 1 else [wmtp]
    sides = {"wmtp": ([*launch, "bench", "step", "--device", "cuda", *row.wmtp.split()], row.seconds)}
    if os.environ.get("GPU_PROFILE") == "1" and row.ranks == 1:
        # Some MB each: the table is what is kept.
        trace = os.path.join(tempfile.gettempdir(), f"wmtp_trace_{os.getpid()}.json")
        sides["wmtp"][0].extend(["--profile", trace])
    for script, flags in (("gpu_train.py", row.train), ("gpu_attention.py", row.attention)):
        if flags:
            sides["wmtp"] = (["python3", os.path.join(HERE, script), wmtp, *flags.split()], row.seconds)
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
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine_state():
    """GPU, driver, and clock and power as they are just after a measurement."""
    query = "name,driver_version,clocks.sm,power.draw,temperature.gpu"
    return output_of(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]).splitlines()[:1]


def torchao_folders():
    """Where the peers look for torchao, as PYTHONPATH names it."""
    return [folder for folder in (os.environ.get("TORCHAO"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)) if folder]


def lacks_torchao(command):
    if not any("anchor_fsdp2" in word for word in command) or not {"--float8", "adamw8bit"} & set(command):
        return False
    found = importlib.machinery.PathFinder.find_spec("torchao", torchao_folders() + sys.path)
    return found is None or found.origin is None  # any folder of that name is found, one that is a package has an origin


def end_group(process):
    """A launcher's ranks and a compiler's helpers end with it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def run_bounded(command, limit):
    """(exit status or why there is none, stdout, stderr)"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(torchao_folders())}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               env=environment, process_group=0)
    try:
        out, error = process.communicate(timeout=limit)
        return process.returncode, out, error
    except subprocess.TimeoutExpired as late:
        return f"over {limit} s", "", (late.stderr or b"").decode(errors="replace")
    finally:
        if process.poll() is None:
            end_group(process)


def kernels_of(trace):
    """All that a GPU ran, from a Chrome trace: the program's own table has the first few."""
    if not os.path.exists(trace):
        return ""
    spent = {}
    try:
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        for event in events:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                calls, us = spent.get(event["name"], (0, 0))
                spent[event["name"]] = calls + 1, us + event["dur"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"the trace cannot be read: {error!r}\n"
    finally:
        os.remove(trace)
    return "".join(f"{us / 1e3:9.2f} ms {calls:6} x {name}\n" for name, (calls, us) in sorted(spent.items(), key=lambda one: -one[1][1]))


def measure(row, side, command, limit, out, commit):
    record = {"row": row.name, "side": side, "commit": commit, "command": " ".join(command[1:] if side == "wmtp" else command)}
    started = time.monotonic()
    record["rc"], output, text = run_bounded(command, limit)
    record["result"] = last_json(output)
    if record["rc"] != 0 or record["result"] is None:
        record["result"] = None
        record["error"] = text.strip().splitlines()[-3:]
    record["seconds"] = round(time.monotonic() - started, 1)
    record["gpu"] = machine_state()
    with open(os.path.join(out, "records.jsonl"), "a") as file:
        file.write(json.dumps(record) + "\n")
    if "--profile" in command:
        folder = os.path.join(out, "profiles")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, row.name.replace(" ", "_") + ".txt"), "w") as file:
            file.write(text + "\n" + kernels_of(command[-1]))
    print(f"{row.name}, {side}: {'measured' if record['result'] else 'FAILED (' + str(record['rc']) + ')'} "
          f"in {record['seconds']} s", flush=True)


def read_records(out):
    """(row, side) -> the last record that has a result, else the last one; a newer program of ours in place of an older one."""
    records = {}
    path = os.path.join(out, "records.jsonl")
    for line in open(path) if os.path.exists(path) else []:
        record = json.loads(line)
        key = record["row"], record["side"]
        old = records.get(key, {})
        is_newer = record["side"] == "wmtp" and record["commit"] != old.get("commit")
        if record["result"] or not old.get("result") or is_newer:
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
    if goal.bound is None:
        return f"{goal.text()}: {value:.4g}"
    met = value >= goal.bound if goal.at_least else value <= goal.bound
    return f"{goal.text()}: {value:.4g}, " + ("met" if met else f"missed by {abs(value / goal.bound - 1):.1%}")


def table(out):
    records = read_records(out)
    lines = ["| row | wmtp tok/s | peak GiB | peer tok/s | peak GiB | floor tok/s | goals |", "|---|---|---|---|---|---|---|"]

    def cell(row, side, figure, form):
        value = figure_of(records, row.name, side, figure)
        return form.format(value) if value is not None else "failed" if side in failed else "-"
    for row in ROWS:
        if not any((row.name, side) in records for side in ("wmtp", "peer", "floor")):
            continue
        failed = [side for side in ("wmtp", "peer", "floor") if not records.get((row.name, side), {"result": 1})["result"]]
        goals = "; ".join(verdict(records, row, goal) for goal in row.goals)
        lines.append(f"| {row.name} | {cell(row, 'wmtp', 'tok_s_rank', '{:,.0f}')} | {cell(row, 'wmtp', 'peak_gib', '{:.1f}')} | "
                     f"{cell(row, 'peer', 'tok_s_rank', '{:,.0f}')} | {cell(row, 'peer', 'peak_gib', '{:.1f}')} | "
                     f"{cell(row, 'floor', 'tok_s_rank', '{:,.0f}')} | {goals} |")
    return "\n".join(lines)


def seconds_left(started):
    """Of the part, and of the call that gpu.sh began."""
    own = PART_SECONDS - (time.monotonic() - started)
    return min(own, float(os.environ.get("GPU_DEADLINE", "inf")) - 15 - time.time())


def run(bundle, out, parts):
    os.makedirs(out, exist_ok=True)
    started, cut, records = time.monotonic(), False, read_records(out)
    commit = output_of([os.path.join(bundle, "bin/wmtp"), "version"]).splitlines()[:1]
    sides = os.environ.get("GPU_SIDES", "wmtp,peer,floor").split(",")

    def is_known(row, side):
        record = records.get((row.name, side), {})
        return record.get("result") and (side != "wmtp" or record["commit"] == commit)
    missing = [(row, side, *how) for row in ROWS if row.part in parts for side, how in commands(row, bundle).items()
               if side in sides and not is_known(row, side)]
    missing.sort(key=lambda each: (each[0].name, each[1]) in records)  # what failed before comes last
    for row, side, command, limit in missing:
        if lacks_torchao(command):
            print(f"{row.name}, {side}: not measured, for no torchao can be imported: TORCHAO=FOLDER of its unpacked wheel")
        elif seconds_left(started) < limit:
            cut = True
        else:
            measure(row, side, command, limit, out, commit)
    print(table(out))
    if cut:
        print("cut short before the call's limit of time: call the same part again")
        return CUT_SHORT
    records = read_records(out)
    return 1 if any((row.name, side) in records and not is_known(row, side) for row, side, _, _ in missing) else 0


def listed(part):
    rows = [row for row in ROWS if row.part == part]
    most = sum(limit for row in rows for _, limit in commands(row, "").values())
    return f"{part} (at most {most} s): " + ", ".join(row.name for row in rows)


def main():
    names = list(dict.fromkeys(row.part for row in ROWS))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the parts and their rows")
    parser.add_argument("--table", metavar="OUT", help="the table of what OUT holds")
    parser.add_argument("words", nargs="*", metavar="BUNDLE OUT PART")
    args = parser.parse_args()
    if args.list:
        print("\n".join(map(listed, names)))
        return 0
    if args.table:
        print(table(args.table))
        return 0
    if len(args.words) < 3:
        parser.error("BUNDLE, OUT and at least one PART are needed; --list names the parts")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what is being measured ends too
    bundle, out, *parts = args.words
    if unknown := set(os.environ.get("GPU_SIDES", "wmtp").split(",")) - {"wmtp", "peer", "floor"}:
        parser.error(f"GPU_SIDES: no side {', '.join(sorted(unknown))}; there are wmtp, peer, floor")
    if unknown := [part for part in parts if part not in names]:
        parser.error(f"no part {', '.join(unknown)}; there are correct, {', '.join(names)}")
    return run(os.path.abspath(bundle), out, parts)


if __name__ == "__main__":
    sys.exit(main())
