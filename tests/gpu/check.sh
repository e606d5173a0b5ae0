#!/bin/bash
# The checks that need a GPU, from a bundle: tests/gpu/check.sh BUNDLE OUT_DIR
# Each part says ok or FAILED with its seconds; details in OUT_DIR/*.log. Exit 1 if any part failed. Parts that this bundle
# has passed already are not run again, so that a call that was cut short goes on where it ended.
set -u
bundle=$(readlink -f "$1") out=$2
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$out"
"$bundle/link-torch.sh" > "$out/link.log" 2>&1 || { cat "$out/link.log"; exit 1; }
failed=0
build=$(sha256sum "$bundle/bin/wmtp" "$bundle"/lib/libwmtp_cuda.so | sha256sum)
part() {
  local name=$1 start=$SECONDS; shift
  if [ "$(cat "$out/$name.passed" 2> /dev/null)" = "$build" ]; then echo "ok      $name (before)"; return; fi
  if timeout 480 "$@" > "$out/$name.log" 2>&1; then
    echo "ok      $name ($((SECONDS - start)) s)"
    echo "$build" > "$out/$name.passed"
  else echo "FAILED  $name ($((SECONDS - start)) s)"; tail -n 25 "$out/$name.log"; failed=1; fi
}
part version "$bundle/bin/wmtp" version
part doctor "$bundle/bin/wmtp" doctor
part nccl "$bundle/bin/wmtp" doctor --collectives --device cuda
part cpu_ranks "$bundle/bin/wmtp" launch --nproc 2 -- doctor --collectives --device cpu
part kernels env WMTP_TEST_CUDA=1 "$bundle/bin/kernels_test" --gtest_brief=1 --gtest_filter=-*Shapes*
part shapes "$here/shapes.sh" "$bundle" "$out"
part nf4_units env WMTP_TEST_CUDA=1 "$bundle/bin/parallel_test" --gtest_brief=1 --gtest_filter=*OnGpu.*
part nccl_conformance env WMTP_TEST_CUDA=1 "$bundle/bin/comm_test" --gtest_brief=1 --gtest_filter=NcclOnGpu.*
part parity python3 "$here/parity.py" "$bundle" "$(mktemp -d)"
part saves "$here/saves.sh" "$bundle"
part groups python3 "$here/groups.py" "$bundle"
part system "$here/system.sh" "$bundle" "$out"
part step_variants python3 "$here/step_variants.py" "$bundle"
part comm_figures python3 "$here/comm_figures.py" "$bundle"
for dtype in bf16 fp32; do
  part bench_kernels_$dtype "$bundle/bin/wmtp" --json bench kernels --device cuda --dtype $dtype
done
grep '^{' "$out/parity.log" || true
cat "$out/shapes/table.txt"
exit $failed
