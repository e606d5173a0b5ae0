#!/bin/bash
# What the program says of a GPU against nvidia-smi, from a bundle: tests/gpu/system.sh BUNDLE OUT_DIR
# A reading is made between two of nvidia-smi, on an idle GPU and on one at work, and must lie between theirs but for
# what they round. A GPU changes meanwhile, so there are ten tries, of which one must hold for all values at once. Then
# a training run must have the numbers of its GPU in metrics.jsonl. Details in OUT_DIR/system.json; exit 1 if any failed.
# shellcheck disable=SC2329  # part calls the functions by their names
set -u
bundle=$(readlink -f "$1") out=$(readlink -m "$2")
here=$(dirname "$(readlink -f "$0")")
configs=$here/../../configs
mkdir -p "$out"
[ -e "$bundle/lib/site-packages" ] || "$bundle/link-torch.sh" > /dev/null
wmtp=$bundle/bin/wmtp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" && cp "$configs/defaults.yaml" . && cp -r "$configs/micro" . && "$wmtp" data demo --out demo > /dev/null
failed=0

compare() {
  python3 - "$bundle/bin/wmtp_system_probe" "$1" "$out/system.json" << 'PYTHON'
import json, subprocess, sys
probe, label, log = sys.argv[1:]
FIELDS = {  # of nvidia-smi: our name, our value in its unit, the most that rounding and a moment may make
    "utilization.gpu": ("gpu_utilization_percentage", 1, 5),
    "memory.used": ("gpu_memory_usage_megabytes", 1e6 / 2**20, 1),
    "power.draw": ("gpu_power_usage_watts", 1, 5),
    "clocks.sm": ("gpu_sm_clock_megahertz", 1, 15),
    "clocks.mem": ("gpu_memory_clock_megahertz", 1, 1),
    "temperature.gpu": ("gpu_temperature_celsius", 1, 1),
}
THROTTLES = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

def smi(*names):
    done = subprocess.run(["nvidia-smi", "--id=0", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True)
    return [word.strip() for word in done.stdout.strip().split(",")] if done.returncode == 0 else None

def number(word):
    try:
        return float(word)
    except ValueError:
        return None  # [N/A]

uuid = smi("uuid")[0]
reasons = next(name for name in ("clocks_event_reasons.active", "clocks_throttle_reasons.active") if smi(name))
names = [*FIELDS, "memory.total", "enforced.power.limit", reasons]

def problems():
    before = smi(*names)
    ours = json.loads(subprocess.run([probe, uuid], capture_output=True, text=True, check=True).stdout)
    after = smi(*names)
    found, table = [], {}
    def check(name, value, low, high, slack):
        table[name] = [low, value, high]
        if (value is None) != (low is None) or value is not None and not min(low, high) - slack <= value <= max(low, high) + slack:
            found.append(f"{name}: {low} .. {high}, ours {value}")
    for field, (name, scale, slack) in FIELDS.items():
        value = ours["system/" + name]
        low, high = number(before[names.index(field)]), number(after[names.index(field)])
        check(field, None if value is None else value * scale, low, high, slack)
    share = lambda row, part, whole: 100 * number(row[names.index(part)]) / number(row[names.index(whole)])
    check("memory %", ours["system/gpu_memory_usage_percentage"], *(share(row, "memory.used", "memory.total") for row in (before, after)), 0.1)
    check("power %", ours["system/gpu_power_usage_percentage"], *(share(row, "power.draw", "enforced.power.limit") for row in (before, after)), 1)
    throttled = [float(int(row[names.index(reasons)], 16) & THROTTLES != 0) for row in (before, after)]
    check("throttled", ours["system/gpu_throttled"], *throttled, 0)
    with open(log, "a") as file:
        file.write(json.dumps({"label": label, "low, ours, high": table, "host": ours, "problems": found}) + "\n")
    return found

for _ in range(10):
    if not (found := problems()):
        sys.exit(0)
print(f"{label}: in none of ten tries were all values alike; of the last one: " + "; ".join(found))
sys.exit(1)
PYTHON
}

part() {
  local name=$1; shift
  if "$@"; then echo "ok      $name"; else echo "FAILED  $name"; failed=1; fi
}

at_work() {
  python3 -c '
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + 120
while time.monotonic() < end:
    for _ in range(50): a @ a
    torch.cuda.synchronize()' &
  local load=$! code=0
  sleep 15
  compare "at work" || code=1
  kill "$load" || code=1  # it must have been at work all the time
  wait "$load" 2> /dev/null
  return "$code"
}

train() {
  "$wmtp" train --config micro/baseline.yaml --device cuda --run-dir run --override training.max_steps=200 \
    --override training.log_interval=20 --override tracking.system_interval_s=0.2 > "$out/system_train.log" 2>&1 || return 1
  python3 - << 'PYTHON'
import json
points = [json.loads(line) for line in open("run/metrics.jsonl")]
last = [point for point in points if "system/gpu_0_utilization_percentage" in point][-1]
for name in ("utilization_percentage", "memory_usage_megabytes", "memory_usage_percentage", "power_usage_watts",
             "power_usage_percentage", "sm_clock_megahertz", "memory_clock_megahertz", "temperature_celsius", "throttled"):
    mean, largest, own = (last[f"system/{text}"] for text in (f"gpu_{name}", f"gpu_{name}_max", f"gpu_0_{name}"))
    assert own == mean <= largest, name
    print(name, mean, largest)
assert last["system/gpu_memory_usage_megabytes_max"] * 1e6 >= last["system/gpu_memory_reserved_gb"] * 2**30
PYTHON
}

rm -f "$out/system.json"
part "idle as nvidia-smi says" compare idle
part "at work as nvidia-smi says" at_work
part "a training run has the numbers of its GPU" train
exit $failed
