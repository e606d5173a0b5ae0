#!/bin/bash
# Every shape on a GPU, from a bundle: tests/gpu/shapes.sh BUNDLE OUT_DIR
# First every op at the edges of what its bodies hold, against the CPU (kernels_test). Then small models of odd shapes,
# three steps each from one seed: on the CPU, and on the GPU in fp32 and in bf16. One line per model, a table last;
# details in OUT_DIR/shapes/. Exit 1 if anything failed.
# Bounds, over the CPU's number, of the loss and of the gradient's norm before clipping: fp32 1e-4 and 1e-3 (the
# attention may multiply in TF32, 2^-11 a term; means over a thousand targets keep little of it), bf16 4 and 16 * 2^-9
# (one value rounded errs by 2^-9; losses average over targets, gradients pass through every layer's roundings). The
# learning rate is small, so that no model diverges: then the steps would amplify every rounding without a bound.
set -u
bundle=$(readlink -f "$1") out=$(readlink -m "$2")/shapes
here=$(dirname "$(readlink -f "$0")")
configs=$here/../../configs
mkdir -p "$out" && rm -f "$out"/*.failed
[ -e "$bundle/lib/site-packages" ] || "$bundle/link-torch.sh" > /dev/null
wmtp=$bundle/bin/wmtp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# One process per op: a fault of the device ends all later calls of its process.
# --foreground: who ends this script ends them.
start=$SECONDS
for family in norm rope linear attention loss optimizer dropout value; do
  WMTP_TEST_CUDA=1 timeout --foreground 140 "$bundle/bin/kernels_test" --gtest_brief=1 \
    --gtest_filter="All/ShapesOnGpu.*/$family" > "$out/ops-$family.log" 2>&1 || touch "$out/ops-$family.failed" &
done
wait
ops="ok      ops ($((SECONDS - start)) s)"
if ls "$out"/ops-*.failed > "$out/ops.failed" 2> /dev/null; then
  ops="FAILED  ops ($((SECONDS - start)) s): $(xargs -n 1 basename -s .failed < "$out/ops.failed" | tr '\n' ' ')"
  failed=1
  grep -h -A3 'Failure$' "$out"/ops-*.log | head -n 60
fi
echo "$ops"

cd "$work" && cp "$configs/defaults.yaml" . && cp -r "$configs/micro" . && "$wmtp" data demo --out demo > /dev/null
# train RUN DEVICE DTYPE PRESET DIM HEADS KV_HEADS HEAD_DIM FFN
train() {
  timeout --foreground 120 "$wmtp" train --config micro/baseline.yaml --device "$2" --run-dir "runs/$1" \
    --override "distributed.fsdp.param_dtype=$3" --override "models.policy.path=$4" \
    --override "models.policy.params={dim: $5, n_heads: $6, n_kv_heads: $7, head_dim: $8, ffn_dim: $9}" \
    --override training.learning_rate=1e-4 --override training.max_steps=3 --override training.log_interval=1 --override training.eval_at_start=false \
    --override training.eval_every_steps=100 > "$out/$1.log" 2>&1
  echo $? > "runs/$1.code"
}
mkdir runs
# name preset dim heads kv_heads head_dim ffn
models="grouped12 micro 48 4 2 12 130
kv1 micro 48 4 1 12 130
tiny micro 8 4 2 2 7
twenty micro 40 2 1 20 129
ninety_six micro 96 2 2 96 256
two_fifty_six micro 256 2 1 256 352
three_hundred micro 64 2 1 300 129
odd micro 129 3 3 10 127
norm12 micro-qwen3 48 4 2 12 130
norm80 micro-qwen3 97 2 1 80 9
wide micro 4097 1 1 18 33"
while read -r name shape; do
  # shellcheck disable=SC2086
  for kind in "cpu fp32" "cuda fp32" "cuda bf16"; do train "$name-${kind/ /-}" $kind $shape & done
  wait
done <<< "$models"
train refused cuda bf16 micro 48 4 2 13 130
refused="ok      an odd head_dim is refused with 78"
[ "$(cat runs/refused.code)" = 78 ] || { refused="FAILED  an odd head_dim ended with $(cat runs/refused.code)"; failed=1; }
python3 - "$work/runs" "$models" > "$out/table.txt" << 'EOF' || failed=1
import json, sys
from pathlib import Path
runs, models = Path(sys.argv[1]), sys.argv[2]
failed = False

BOUNDS = {"fp32": (1e-4, 1e-3), "bf16": (4 * 2**-9, 16 * 2**-9)}
KEYS = ("train/loss", "train/grad_norm_pre_clip")

def numbers(run):
    code = (runs / f"{run}.code").read_text().strip()
    if code != "0":
        return f"exit code {code}"
    lines = map(json.loads, (runs / run / "metrics.jsonl").read_text().splitlines())
    found = [[line[key] for key in KEYS] for line in lines if KEYS[0] in line]
    return found if len(found) == 3 else f"{len(found)} steps"

def judged(got, wanted, bounds):
    if isinstance(got, str) or isinstance(wanted, str):
        return f"FAILED  {got if isinstance(got, str) else wanted}"
    errors = [max(abs(a[i] - b[i]) / abs(b[i]) for a, b in zip(got, wanted)) for i in range(2)]
    holds = all(error <= bound for error, bound in zip(errors, bounds))
    return f"{'ok    ' if holds else 'FAILED'}  {errors[0]:.0e} {errors[1]:.0e}"

print("errors of the loss and of the gradient's norm over three steps, GPU against CPU; bounds "
      + "; ".join(f"{dtype} {loss:.0e} {norm:.0e}" for dtype, (loss, norm) in BOUNDS.items()))
print(f"{'model':14} {'dim':>5} {'heads':>5} {'kv':>3} {'e':>4} {'ffn':>4}  {'loss on the CPU':17} {'fp32':21} bf16")
for line in models.splitlines():
    name, preset, dim, heads, kv, e, ffn = line.split()
    cpu = numbers(f"{name}-cpu-fp32")
    fp32, bf16 = (judged(numbers(f"{name}-cuda-{dtype}"), cpu, bounds) for dtype, bounds in BOUNDS.items())
    shown = cpu if isinstance(cpu, str) else f"{cpu[0][0]:.4f} -> {cpu[-1][0]:.4f}"
    failed |= "FAILED" in fp32 + bf16
    print(f"{name:14} {dim:>5} {heads:>5} {kv:>3} {e:>4} {ffn:>4}  {shown:17} {fp32:21} {bf16}")
sys.exit(failed)
EOF
echo "$ops"
grep -h '^shapes gpu' "$out"/ops-*.log
cat "$out/table.txt"
echo "$refused"
grep -H '^wmtp: ' "$out"/*-c*.log | sed 's|.*/||'
exit $failed
