#!/bin/bash
# Speed and memory on a GPU against PyTorch FSDP2, both sides in one run: tests/gpu/measure.sh BUNDLE OUT_DIR
# One JSON line per measurement in OUT_DIR/measure.jsonl; failures are said and do not end the run.
set -u
bundle=$(readlink -f "$1") out=$2
here=$(dirname "$(readlink -f "$0")")
peer="python3 $here/../../bench/peer_fsdp2.py --device cuda"
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
cat "$out/measure.jsonl"
