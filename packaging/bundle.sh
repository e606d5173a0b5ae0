#!/bin/bash
# Makes dist/wmtp-<version>-linux-x86_64/, a folder that runs anywhere torch 2.11.0 is installed:
#   bin/wmtp  bin/wmtp-bench, lib/libwmtp_cuda.so (if built)  lib/*.so (ours)  lib/site-packages -> the target's  link-torch.sh
#   share/wmtp/configs  share/man/man1  completion scripts below share/, where bash, zsh and fish look for them
# --build DIR          build folder to take from (build)
# --out DIR            where to put the folder (dist)
# --site-packages DIR  makes the link now; else run link-torch.sh on the target
# --with-tests         what the scripts in tests/gpu run besides
# --programs A,B       these programs of the build folder's bin/ besides
# --release            refuse a program with failpoints in it
# shellcheck disable=SC2016  # $ORIGIN is for the loader, not for this shell
set -euo pipefail
cd "$(dirname "$0")/.."
build=build out=dist site_packages='' release=no named=''
tests_on_gpu=kernels_test,comm_test,parallel_test,training_test,wmtp_model_probe,wmtp_system_probe
max_bytes=$((60 * 1024 * 1024))

fail() { echo "[bundle] $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --site-packages) site_packages=$2; shift 2 ;;
    --with-tests) named+=,$tests_on_gpu; shift ;;
    --programs) named+=,$2; shift 2 ;;
    --release) release=yes; shift ;;
    *) fail "unknown option $1; see the head of packaging/bundle.sh" ;;
  esac
done
programs=("$build/bin/wmtp")
[ ! -x "$build/bin/wmtp-bench" ] || programs+=("$build/bin/wmtp-bench")
for name in $(tr , '\n' <<< "$named" | sort -u); do programs+=("$build/bin/$name"); done
for program in "${programs[@]}"; do
  [ -x "$program" ] || fail "no $program: run make build first, or ninja -C $build $(basename "$program")"
done
for tool in patchelf strip ldd; do
  command -v $tool > /dev/null || fail "$tool is missing: run tools/setup"
done
# The name of a failpoint that every build with failpoints has.
if [ $release = yes ] && grep -qa 'save\.shard\.fsync' "$build/bin/wmtp"; then
  fail "$build/bin/wmtp has failpoints in it; configure with the preset release"
fi

version=$(sed -n 's/^project(wmtp VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=wmtp-$version-linux-x86_64
mkdir -p "$out"
stage=$(mktemp -d "$out/.part-XXXXXX")
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
mkdir "$stage/bin" "$stage/lib"

for program in "${programs[@]}"; do
  strip -o "$stage/bin/$(basename "$program")" "$program"
  patchelf --set-rpath '$ORIGIN/../lib/site-packages/torch/lib:$ORIGIN/../lib' "$stage/bin/$(basename "$program")"
done
plugin=$build/lib/libwmtp_cuda.so
if [ -f "$plugin" ]; then
  strip -o "$stage/lib/libwmtp_cuda.so" "$plugin"
  patchelf --set-rpath '$ORIGIN/site-packages/torch/lib:$ORIGIN/site-packages/nvidia/cu13/lib:$ORIGIN' \
    "$stage/lib/libwmtp_cuda.so"
fi

# Ours to bring: all that is not the C or C++ run time and does not come with torch.
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | while read -r soname path; do
  case $path in */site-packages/*) continue ;; esac
  case $soname in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.* | libresolv.so.* | ld-linux*) continue ;;
    libstdc++.so.* | libgcc_s.so.* | libgomp.so.*) continue ;;
  esac
  strip -o "$stage/lib/$soname" "$path"
  patchelf --set-rpath '$ORIGIN' "$stage/lib/$soname"
done

cp LICENSE README.md "$stage/"
mkdir -p "$stage/share/wmtp"
cp -r configs "$stage/share/wmtp/"  # defaults.yaml is the layer below a configuration that has none beside it
mkdir -p "$stage"/share/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$build/bin/wmtp" completion man --out "$stage/share/man/man1" > /dev/null
"$build/bin/wmtp" completion bash > "$stage/share/bash-completion/completions/wmtp"
"$build/bin/wmtp" completion zsh > "$stage/share/zsh/site-functions/_wmtp"
"$build/bin/wmtp" completion fish > "$stage/share/fish/vendor_completions.d/wmtp.fish"
cp packaging/link-torch.sh "$stage/"
[ -z "$site_packages" ] || ln -s "$site_packages" "$stage/lib/site-packages"

bytes=$(du -sb "$stage" | cut -f1)
# What users are given has a limit; programs that tests need besides travel compressed.
[ -n "$named" ] || [ "$bytes" -le $max_bytes ] || fail "$((bytes >> 20)) MiB, the limit is $((max_bytes >> 20)) MiB"
rm -rf "${out:?}/$name"
mv "$stage" "$out/$name"
trap - EXIT
printf '[bundle] %s/%s: %d files, %.1f MiB\n' "$out" "$name" "$(find "$out/$name" -type f | wc -l)" \
  "$(awk "BEGIN {print $bytes / 1048576}")"
