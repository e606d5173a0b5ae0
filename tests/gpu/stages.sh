#!/bin/bash
# The four stages trained on a GPU, from a bundle: tests/gpu/stages.sh BUNDLE OUT_DIR
# One rank with NCCL, then two ranks that share the GPU over Gloo, then recipes: LoRA with dropout, fp16, bf16_sr,
# offload, kill and resume. Each part says ok or FAILED with its last validation loss. Exit 1 if any failed.
# shellcheck disable=SC2329  # part calls the functions by their names
set -u
bundle=$(readlink -f "$1") out=$(readlink -m "$2")
here=$(dirname "$(readlink -f "$0")")
configs=$here/../../configs
mkdir -p "$out"
[ -e "$bundle/lib/site-packages" ] || "$bundle/link-torch.sh" > /dev/null
wmtp=$bundle/bin/wmtp
work=$(mktemp -d)
cd "$work" && cp "$configs/defaults.yaml" . && cp -r "$configs/micro" . && "$wmtp" data demo --out demo > /dev/null
failed=0
part() {
  local name=$1 start=$SECONDS; shift
  if "$@" > "$out/$name.log" 2>&1; then
    echo "ok      $name ($((SECONDS - start)) s) $(grep -o 'Validation Loss: [0-9.]*' "$out/$name.log" | tail -n 1)"
  else echo "FAILED  $name ($((SECONDS - start)) s)"; tail -n 15 "$out/$name.log"; failed=1; fi
}
train() { timeout 200 "$wmtp" train --config "micro/$1.yaml" --device cuda "${@:2}"; }
shared() { timeout 200 "$wmtp" launch --nproc 2 --max-restarts "${RESTARTS:-0}" -- train --config "micro/$1.yaml" --device cuda \
  --override distributed.backend=gloo --override distributed.allow_shared_gpu=true "${@:2}"; }
for stage in baseline critic verifiable rho1; do part "one_$stage" train $stage; done
for stage in baseline critic verifiable rho1; do part "two_$stage" shared $stage --run-dir "runs/two-$stage"; done
part lora train baseline --run-dir runs/lora --override training.use_lora=true --override training.lora.dropout=0.1 \
  --override models.policy.path=runs/micro-baseline/final --override models.policy.init=pretrained
part fp16 train baseline --run-dir runs/fp16 --override distributed.fsdp.param_dtype=fp16
part bf16_sr train baseline --run-dir runs/bf16_sr --override training.optimizer.precision=bf16_sr
part offload shared baseline --run-dir runs/offload --override distributed.fsdp.cpu_offload=true
resume() {
  RESTARTS=1 WMTP_FAILPOINT='step.begin:rank=1:nth=51=kill' \
    shared baseline --run-dir runs/resume --override checkpoint.save_every_steps=15
}
part resume resume
grep -h "Resumed from" "$out/resume.log" || failed=1
exit $failed
