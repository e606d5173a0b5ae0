#!/bin/bash
# The checks that need a GPU, from a bundle: tests/gpu/check.sh BUNDLE OUT_DIR [PART ...]
#   tests/gpu/check.sh --list               the parts in their order: name, limit in seconds, command
#   tests/gpu/check.sh --table OUT_DIR      what became of each part
# Each part is a process of its own with a limit of time, for a fault of the device ends all later calls of its process; kernels
# that never ran on a GPU come first, the cheapest and surest before the others. Logs are OUT_DIR/<part>.log, whole. A part that
# this bundle has passed is not run again, one that has failed comes after those that were not run yet; named ones are run anyway.
# What failed is shown from its first failure on, and a test of kernels_test then runs under compute-sanitizer where that is on
# PATH (OUT_DIR/<part>.sanitizer.log) unless GPU_SANITIZE is 0. Nothing goes on beyond GPU_DEADLINE (seconds since 1970).
# GPU_JOBS parts run at once (1), each with its share of the cores (OMP_NUM_THREADS) and half as much time again; what measures
# the GPU or needs it alone runs after them, one by one.
# Exit 0: every part has passed; 1: one has failed; 75: the time was short, call again.
# shellcheck disable=SC2329  # each and begin call functions by their names
set -u
here=$(dirname "$(readlink -f "$0")")
names=()
declare -A limit command filter status running=()
# A bandwidth, a share of a step, a power or a time means nothing beside other work.
alone=' graphs nccl nccl_conformance system comm_figures bench_kernels_bf16 bench_kernels_fp32 '
part() { names+=("$1"); limit[$1]=$2; shift 2; command[${names[-1]}]=$(printf '%q ' "$@"); }
tests() {  # NAME LIMIT PROGRAM FILTER: of a program of gtest; a run in which nothing ran, or all was skipped, has failed
  filter[$1]=$4
  part "$1" "$2" env WMTP_TEST_CUDA=1 "$bundle/bin/$3" "--gtest_filter=$4"
}

# Limits are guesses but for shapes (55 s were recorded on an H200). Kernels: 10 s to start LibTorch and the plugin, the CPU's half of the
# comparison, and the rest for what nobody knows; on the emulated GPU, where a CPU does both halves, they took 2 to 16 s, k_cpu 35 s.
# A step of `small` takes 0.01 s and its process 10 s: two of them in step_*, nine runs in graphs, some 22 in step_variants and groups.
define_parts() {
  local float8=Float8OnGpu dtype
  local products=$float8.ForwardAndInputProducts:$float8.WeightProductsOverwriteOrAdd
  local edges=$float8.NoTokensAddNothing:$float8.WhatIsNotFiniteShows:$float8.WhatHasNoBodyIsRefused
  part version 60 "$bundle/bin/wmtp" version
  part doctor 60 "$bundle/bin/wmtp" doctor
  part nccl 90 "$bundle/bin/wmtp" doctor --collectives --device cuda
  # Every suite of kernels_test is in one part and no other: tests/tools/gpu_records_test.py.
  tests k_planes_adamw 90 kernels_test 'PlanesOnGpu.*:AdamWInPlanesOnGpu.*:AdamWRoundedOnGpu.*:AdamW8bitOnGpu.*'
  tests k_nf4 90 kernels_test 'Nf4OnGpu.*'
  tests k_amax 90 kernels_test 'ProducedAmaxOnGpu.*'
  tests k_products 90 kernels_test '*MeasuredProducts*'
  tests k_float8_bytes 90 kernels_test "$float8.*-$products:$edges"
  # Each of these tests does tensorwise, then rowwise; a whole step of either alone is step_tensorwise and step_rowwise below.
  tests k_float8_forward 90 kernels_test "${products%:*}"
  tests k_float8_weight 90 kernels_test "${products#*:}"
  tests k_float8_edges 90 kernels_test "$edges"
  tests k_ops 120 kernels_test "*OnGpu*-Planes*:AdamWInPlanes*:AdamWRounded*:AdamW8bit*:Nf4*:ProducedAmax*:*MeasuredProducts*:$float8.*:*/Shapes*:Packed*"
  tests shards 90 parallel_test '*OnGpu.*'
  tests host_waits 120 training_test '*OnGpu.*'
  part shapes 170 "$here/shapes.sh" "$bundle" "$out"
  for case in bf16_moments int8 tensorwise rowwise; do
    part step_$case 90 python3 "$here/step_precisions.py" "$bundle" $case
  done
  part graphs 300 python3 "$here/graphs.py" "$bundle"
  tests k_packed 90 kernels_test 'PackedAttentionOnGpu.*'
  # From here on what passed on an H200 before, but for what has changed since.
  # shellcheck disable=SC2016
  part parity 240 bash -c 'python3 "$0" "$1" "$(mktemp -d)"' "$here/parity.py" "$bundle"
  part step_variants 300 python3 "$here/step_variants.py" "$bundle"
  tests nccl_conformance 90 comm_test 'NcclOnGpu.*'
  part saves 120 "$here/saves.sh" "$bundle"
  part system 200 "$here/system.sh" "$bundle" "$out"
  part groups 300 python3 "$here/groups.py" "$bundle"
  part comm_figures 300 python3 "$here/comm_figures.py" "$bundle"
  for dtype in bf16 fp32; do
    part bench_kernels_$dtype 240 "$bundle/bin/wmtp" --json bench kernels --device cuda --dtype $dtype
  done
  part cpu_ranks 60 "$bundle/bin/wmtp" launch --nproc 2 -- doctor --collectives --device cpu
  tests k_cpu 150 kernels_test '-*OnGpu*'
}

mark() { [ "$(cut -d ' ' -f 1 "$out/$1" 2> /dev/null)" = "$build" ]; }
table() {
  local name
  for name in "${names[@]}"; do
    if mark "$name.passed"; then echo "ok       $name ($(cut -d ' ' -f 2- "$out/$name.passed"))"
    elif mark "$name.failed"; then echo "FAILED   $name ($(cut -d ' ' -f 2- "$out/$name.failed"))"
    else echo "NOT RUN  $name${status[$name]:+ (${status[$name]})}"; fi
  done
}

least=${GPU_LEAST:-120}  # what a longer part is given at least, or it does not begin
left() { echo $((${GPU_DEADLINE:-9999999999} - $(date +%s))); }
child=
# Whoever is told to end ends what it started: this script its parts, and the process of a part its program.
trap 'end_all "${!running[@]}" $child; exit 143' TERM INT
end_all() { [ $# = 0 ] || { kill "$@"; wait "$@"; } 2> /dev/null; }
bounded() {  # SECONDS LOG COMMAND ...: in the background, so that a signal reaches the command too
  timeout --kill-after=10 "$1" "${@:3}" > "$2" 2>&1 &
  child=$!
  wait "$child"
}
# A log that something filled does not fill what is sent home.
shorten() {
  [ "$(stat -c %s "$1")" -ge 4000000 ] || return
  { head -c 1000000 "$1"; echo; echo ...; tail -c 1000000 "$1"; } > "$1.short"
  mv "$1.short" "$1"
}

first_failure() {
  local pattern at
  for pattern in 'Failure$' '^FAILED' '^Traceback|^terminate called|^=========.*(Invalid|error|hazard)' 'Error|error:|ended with'; do
    at=$(grep -n -m 1 -E "$pattern" "$1" | cut -d : -f 1)
    [ -z "$at" ] || break
  done
  if [ -n "$at" ]; then sed -n "$((at > 2 ? at - 2 : 1)),$((at + 20))p" "$1" | sed 's/^/  | /'; fi
  if [ -z "$at" ] || [ "$(wc -l < "$1")" -gt $((at + 20)) ]; then
    echo "  ... its end:"
    tail -n 8 "$1" | sed 's/^/  | /'
  fi
}

numbers() { sed -n 's/^\[  \(PASSED\|SKIPPED\) *\] \([0-9]*\) test.*/, \2 \L\1/p' "$1" | tr -d '\n'; }
# Starts a part if the time is enough, for `attempt` in a process of its own.
run() {
  local name=$1 seconds=${limit[$1]} needed cut=''
  [ "$share" = 1 ] || seconds=$((seconds * 3 / 2))
  needed=$((seconds < least ? seconds : least))
  if (($(left) < needed + 15)); then status[$name]="no time left"; return; fi
  if (($(left) < seconds + 15)); then seconds=$(($(left) - 15)) cut=yes; fi
  begin "$name" attempt "$seconds" "$cut"
}
attempt() {  # NAME SECONDS CUT
  local name=$1 log=$out/$1.log seconds=$2 cut=$3 start=$SECONDS code words
  eval "words=(${command[$name]})"
  bounded "$seconds" "$log" "${words[@]}"
  code=$?
  shorten "$log"
  if [ "$code" = 0 ] && [ -n "${filter[$name]:-}" ] && ! grep -q '^\[  PASSED  \] [1-9]' "$log"; then
    echo "nothing ran: no test, or each was skipped" >> "$log"
    code=none
  fi
  if [ "$code" = 0 ]; then
    rm -f "$out/$name.failed" "$out/$name.sanitizer.log"
    echo "$build $((SECONDS - start)) s$(numbers "$log")" > "$out/$name.passed"
    echo "ok       $name ($((SECONDS - start)) s$(numbers "$log"))"
  elif [ -n "$cut" ] && { [ "$code" = 124 ] || [ "$code" = 137 ]; }; then
    echo "CUT      $name (after $seconds s)"
  else
    [ "$code" != 124 ] && [ "$code" != 137 ] || code="over $seconds s"
    rm -f "$out/$name.passed"
    echo "$build exit $code, $((SECONDS - start)) s" > "$out/$name.failed"
    echo "FAILED   $name (exit $code, $((SECONDS - start)) s)"
    first_failure "$log"
  fi
}

# The first test of the part that failed, or the one that was running when all ended. LibTorch's allocator hides the borders
# of tensors from the tool, so every tensor is an allocation of its own there.
sanitize() {
  local seconds=90
  ((seconds < $(left) - 15)) || seconds=$(($(left) - 15))
  ((seconds < 30)) || begin "$1" look_closer "$seconds"
}
look_closer() {  # NAME SECONDS
  local name=$1 log=$out/$1.sanitizer.log seconds=$2 failing program
  failing=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\/*[^ ,]*\.[^ ,]*\).*/\1/p' "$out/$name.log" | head -n 1)
  [ -n "$failing" ] || failing=$(sed -n 's/^\[ RUN      \] //p' "$out/$name.log" | tail -n 1)
  program=$(grep -o "[^ ]*/bin/[a-z]*_test" <<< "${command[$name]}")
  bounded "$seconds" "$log" env WMTP_TEST_CUDA=1 PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --error-exitcode=9 \
    "$program" "--gtest_filter=${failing:-${filter[$name]}}"
  echo "compute-sanitizer: $name, ${failing:-all of it}: exit $?"
  shorten "$log"
  first_failure "$log"
}

# What a part says is told when it has ended, so that parts which run at once do not talk at once.
begin() {  # NAME FUNCTION ARGUMENT ...: calls the function with the name and the arguments
  (
    running=() child=
    trap 'end_all $child; exit 143' TERM INT
    [ "$share" = 1 ] || export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(($(nproc) > share ? $(nproc) / share : 1))}"
    "$2" "$1" "${@:3}"
  ) > "$out/$1.said" &
  running[$!]=$1
}
# Which of them have ended is asked of the processes: `wait -n` may have missed one that ended before it.
collect() {
  local process name
  wait -n "${!running[@]}" 2> /dev/null
  for process in "${!running[@]}"; do
    ! kill -0 "$process" 2> /dev/null || continue
    name=${running[$process]}
    unset "running[$process]"
    cat "$out/$name.said"
    status[$name]=$(sed -n 's/^CUT .* (\(after .*\))$/cut short \1/p' "$out/$name.said")
    rm "$out/$name.said"
  done
}
each() {  # SHARE FUNCTION NAME ...: as many at once as share the machine
  local share=$1 name
  for name in "${@:3}"; do
    while [ ${#running[@]} -ge "$share" ]; do collect; done
    "$2" "$name"
  done
  while [ ${#running[@]} -gt 0 ]; do collect; done
}

case ${1:-} in
  --list)
    bundle=BUNDLE out=OUT_DIR
    define_parts
    for name in "${names[@]}"; do echo "$name ${limit[$name]} $(eval "echo ${command[$name]}" | sed "s|$here|tests/gpu|g")"; done
    exit ;;
  --table)
    bundle=BUNDLE out=$2
    define_parts
    build=$(cat "$out/build" 2> /dev/null) || exit 0
    table
    exit ;;
esac
if [ $# -lt 2 ]; then sed -n '2,12s/^# //p' "$0"; exit 2; fi
bundle=$(readlink -f "$1") out=$(readlink -m "$2")
shift 2
define_parts
for name in "$@"; do
  [ -n "${limit[$name]:-}" ] || { echo "no part $name; there are: ${names[*]}" >&2; exit 2; }
done
mkdir -p "$out"
"$bundle/link-torch.sh" > "$out/link.log" 2>&1 || { cat "$out/link.log"; exit 1; }
build=$(sha256sum "$bundle/bin/wmtp" "$bundle"/lib/libwmtp_cuda.so | cut -d ' ' -f 1 | sha256sum | cut -d ' ' -f 1)
echo "$build" > "$out/build"
order=("$@")
if [ $# = 0 ]; then
  for name in "${names[@]}"; do mark "$name.passed" || mark "$name.failed" || order+=("$name"); done
  for name in "${names[@]}"; do ! mark "$name.failed" || order+=("$name"); done
fi
jobs=${GPU_JOBS:-1} together=() last=()
[ "$jobs" -ge 1 ] || { echo "GPU_JOBS is $jobs, but at least one part runs at a time" >&2; exit 2; }
for name in "${order[@]}"; do
  if [ "$jobs" -gt 1 ] && [[ $alone != *" $name "* ]]; then together+=("$name"); else last+=("$name"); fi
done
each "$jobs" run "${together[@]}"
each 1 run "${last[@]}"
if [ "${GPU_SANITIZE:-1}" != 0 ] && command -v compute-sanitizer > /dev/null; then
  failing=()
  for name in "${order[@]}"; do [ -z "${filter[$name]:-}" ] || ! mark "$name.failed" || failing+=("$name"); done
  each "$jobs" sanitize "${failing[@]}"
fi
grep -h '^{' "$out/parity.log" 2> /dev/null
cat "$out/shapes/table.txt" 2> /dev/null
table
if table | grep -q '^FAILED'; then exit 1; fi
if table | grep -q '^NOT RUN'; then exit 75; fi
exit 0
