#!/bin/bash
# Checks and measures the GPU kernels on a machine with a GPU. Run from a bundle made with --with-tests (or a
# build folder): bin/kernels_test, bin/wmtp and lib/libwmtp_cuda.so. Results go to $OUT (default: ./out).
set -uo pipefail
here=$(pwd)
[ -x "$here/bin/kernels_test" ] || { echo "[gpu_check] no bin/kernels_test here: make the bundle with --with-tests" >&2; exit 1; }
out=${OUT:-$here/out}
mkdir -p "$out"
failed=0
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv > "$out/gpu.csv" 2>&1

WMTP_TEST_CUDA=1 timeout 240 bin/kernels_test --gtest_filter='*OnGpu*' --gtest_brief=1 > "$out/kernels_test.txt" 2>&1 || failed=1
grep -E '^gpu ' "$out/kernels_test.txt" | sort -t'r' -k4 > "$out/errors.txt"
grep -vE '^gpu ' "$out/kernels_test.txt" | tail -60

for dtype in bf16 fp32; do
  timeout 150 bin/wmtp --json bench kernels --device cuda --dtype $dtype > "$out/bench_$dtype.jsonl" 2> "$out/bench_$dtype.err" || failed=1
  tail -3 "$out/bench_$dtype.err"
  sed -E 's/"ts":"[^"]*",//' "$out/bench_$dtype.jsonl"
done
exit $failed
