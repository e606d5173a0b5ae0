#!/bin/bash
# Speed and memory on a GPU against PyTorch FSDP2, both sides in one run: tests/gpu/measure.sh BUNDLE OUT_DIR
# One JSON line per measurement in OUT_DIR/measure.jsonl; failures are said and do not end the run.
# shellcheck disable=SC2086  # the variables of commands hold several words each
set -u
bundle=$(readlink -f "$1") out=$2
here=$(dirname "$(readlink -f "$0")")
peer="python3 $here/../../bench/anchor_fsdp2.py --device cuda"
step="$bundle/bin/wmtp bench step --device cuda"
mkdir -p "$out"
[ -e "$bundle/lib/site-packages" ] || "$bundle/link-torch.sh" > /dev/null
take() {
  local limit=$1; shift
  echo "# $*" >> "$out/measure.log"
  timeout "$limit" "$@" >> "$out/raw.log" 2>> "$out/measure.log" || echo "failed ($?): $*"
  grep -h '"step_s"' "$out/raw.log" | tail -n 1 | sed 's/^[^{]*//' >> "$out/measure.jsonl"
  : > "$out/raw.log"
}
seven="--preset llama-mtp-7b --batch 4 --seq 1024"
qwen="--preset qwen3-0.6b --batch 8 --seq 1024"
take 60 $step $qwen --recompute none --steps 10 --warm 3
take 100 $peer $qwen --ac 0 --compile 1 --steps 10 --warm 3
take 90 $step $seven --recompute block --backend nccl --steps 10 --warm 2 --repeat-batch --lr 1e-4
take 150 $peer $seven --ac 1 --compile 1 --steps 5 --warm 2
take 90 $step $seven --recompute auto --backend nccl --steps 5 --warm 2
take 240 "$bundle/bin/wmtp" launch --nproc 4 --max-restarts 0 -- bench step --device cuda --preset llama-mtp-7b \
  --batch 1 --seq 1024 --recompute block --backend gloo --allow-shared-gpu --steps 1 --warm 0
# Stages against uniform weights, step by step in one process; critic and plan: plan_gib beside peak_gib.
for stage in verifiable rho1; do
  take 150 $step $seven --recompute block --steps 10 --warm 3 --stage $stage --beside-uniform
done
take 90 $step $seven --recompute block --steps 10 --warm 3 --stage critic
take 90 $step $seven --recompute block --steps 10 --warm 3 --heads 1
cat "$out/measure.jsonl"
# Goals: over_uniform <= 1.02; tflops with 1 head <= 1.10 x with 4; peak with 4 <= 1.05 x (peak with 1 + their state).
python3 - "$out/measure.jsonl" << 'EOF'
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
ours = [run for run in runs if run.get("peer") == "wmtp" and run["preset"] == "llama-mtp-7b" and run["world"] == 1]
for run in ours:
    if "over_uniform" in run: print(f"{run['stage']} over uniform: {run['over_uniform']:.4f} (<= 1.02)")
    print(f"{run['stage']}, recompute {run['recompute']}: peak {run['peak_gib']:.2f} GiB, plan {run['plan_gib']:.2f}, ratio {run['peak_gib'] / run['plan_gib']:.3f} (0.9..1.1)")
alike = [run for run in ours if run["stage"] == "baseline" and run["recompute"] == "block"]
if len({run["params"] for run in alike}) == 2:
    four, one = max(alike, key=lambda run: run["params"]), min(alike, key=lambda run: run["params"])
    print(f"4 heads over 1: FLOP-proportional time {one['tflops'] / four['tflops']:.3f} (<= 1.10), "
          f"peak {four['peak_gib'] / (one['peak_gib'] + four['state_gib'] - one['state_gib']):.3f} (<= 1.05)")
EOF
