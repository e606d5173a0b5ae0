#!/bin/bash
# What is claimed of one GPU, in parts of under nine minutes that go on where they were cut short:
#   bench/gpu.sh BUNDLE OUT PART [PART ...]      PART: correct, or one of `python3 bench/gpu_records.py --list`
# BUNDLE is the folder of packaging/bundle.sh --with-tests. `correct` (kernels, shapes, PyTorch parity, reruns: tests/gpu)
# belongs before any figure.
set -eu
if [ $# -lt 3 ]; then sed -n '2,5s/^# //p' "$0"; exit 2; fi
bundle=$(readlink -f "$1") out=$2
shift 2
here=$(dirname "$(readlink -f "$0")")
[ -e "$bundle/lib/site-packages" ] || "$bundle/link-torch.sh" > /dev/null
if [ "$1" = correct ]; then
  shift
  "$here/../tests/gpu/check.sh" "$bundle" "$out/correct"
  [ $# -gt 0 ] || exit 0
fi
exec python3 "$here/gpu_records.py" "$bundle" "$out" "$@"
