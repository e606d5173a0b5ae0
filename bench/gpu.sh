#!/bin/bash
# What is claimed of one GPU, in calls of nine minutes that go on where the last one ended:
#   bench/gpu.sh [--from RESULTS.tgz] BUNDLE OUT PART [PART ...]
# PART: correct (tests/gpu/check.sh), correct=NAME,NAME (of its --list), one of `python3 bench/gpu_records.py --list`, or curves
# (gpu_curves.py), which come last.
# BUNDLE is the folder of packaging/bundle.sh --with-tests. `correct` (kernels, shapes, PyTorch parity, reruns) belongs before any
# figure. Environment:
#   WORK         the folder that is worked in (build-gpu-records beside bench/, which git ignores)
#   GPU_SECONDS  what the call may take (540); nothing begins that would not end within it
#   GPU_JOBS     how many parts of `correct` run at once (1); what measures the GPU runs after them, alone
#   GPU_SANITIZE 0: no compute-sanitizer after a part of `correct` that failed
#   GPU_SIDES    of the rows, the sides to measure (wmtp,peer,floor); ours come back sooner alone
#   GPU_PROFILE  1: also a table of what took the time of one step of each row (profiles/ in the results)
#   TORCHAO      the folder of an unpacked torchao wheel, for the peers that need it
# The last step of every call, also of one that failed, was cut short or is told to end (SIGTERM), writes OUT/results.tgz (all
# logs, marks and records), OUT/records.jsonl and OUT/summary.txt. A machine that forgets is given the results of the call
# before: --from, or WORK/results.tgz; they are unpacked where WORK has no results of its own.
# Exit 0: all passed and measured; 1: a check or a measurement has failed; 75: cut short, call the same again.
# shellcheck disable=SC2329  # send is called by the trap
set -u
usage() { sed -n '2,19s/^# //p' "$0"; exit 2; }
from=''
if [ "${1:-}" = --from ]; then
  [ -f "${2:-}" ] || { echo "no file ${2:-} to go on from" >&2; exit 2; }
  from=$(readlink -f "$2")
  shift 2
fi
[ $# -ge 3 ] || usage
bundle=$(readlink -f "$1") out=$(readlink -m "$2")
shift 2
here=$(dirname "$(readlink -f "$0")")
check=$here/../tests/gpu/check.sh
work=$(readlink -m "${WORK:-$here/../build-gpu-records}")
results=$work/results
export GPU_DEADLINE=$(($(date +%s) + ${GPU_SECONDS:-540}))
checks='' curves='' records=()
for part in "$@"; do
  case $part in
    correct) checks=all ;;
    correct=*) checks=${part#correct=} ;;
    curves) curves=yes ;;
    *) records+=("$part") ;;
  esac
done

[ -n "$from" ] || from=$work/results.tgz
if [ -e "$results" ]; then
  echo "going on with $results"
elif [ -e "$from" ]; then
  mkdir -p "$results"
  if ! tar -xzf "$from" -C "$results"; then
    echo "$from is no results.tgz" >&2
    rm -rf "$results"
    exit 2
  fi
  echo "going on from $from"
fi
mkdir -p "$out" "$results"

# What ends a call goes home first: a whole file or none, and the small ones for those who only look.
send() {
  touch "$results/records.jsonl"
  { "$check" --table "$results/correct"; python3 "$here/gpu_records.py" --table "$results"
    python3 "$here/gpu_curves.py" "$bundle" "$results/curves" --table; } > "$out/summary.txt" 2>&1
  cp "$results/records.jsonl" "$out/records.jsonl"
  tar -czf "$work/sent.tgz" -C "$results" . && mv "$work/sent.tgz" "$out/results.tgz"
}
child=''
trap send EXIT
trap '[ -z "$child" ] || { kill "$child"; wait "$child"; } 2> /dev/null; exit 143' TERM INT HUP
step() { "$@" & child=$!; wait "$child"; }  # in the background, so that a signal is heard at once

code=0 cut=0
if [ -n "$checks" ]; then
  [ "$checks" = all ] && checks=''
  IFS=, read -ra checks <<< "$checks"
  step "$check" "$bundle" "$results/correct" "${checks[@]}"
  code=$?
  if [ $code = 75 ]; then cut=75 code=0; fi
  [ $code -lt 2 ] || exit $code
fi
measure() { step python3 "$@"; case $? in 0) ;; 75) cut=75 ;; *) code=1 ;; esac; }
if [ ${#records[@]} -gt 0 ] || [ -n "$curves" ]; then
  [ -e "$bundle/lib/site-packages" ] || "$bundle/link-torch.sh" > /dev/null || exit 1
fi
if [ ${#records[@]} -gt 0 ]; then measure "$here/gpu_records.py" "$bundle" "$results" "${records[@]}"; fi
if [ -n "$curves" ]; then measure "$here/gpu_curves.py" "$bundle" "$results/curves"; fi
if [ $code != 0 ]; then exit $code; fi
exit $cut
