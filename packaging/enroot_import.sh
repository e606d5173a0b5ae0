#!/bin/bash
# Makes the file that packaging/slurm/container.sbatch starts from an image: enroot_import.sh [IMAGE [OUT]]
#   IMAGE  dockerd://NAME:TAG, an image of this machine's docker (dockerd://wmtp:0.1.0 by default), or
#          docker://REGISTRY#NAME:TAG
#   OUT    the file to make (wmtp.sqsh); put it on storage that all nodes see
set -euo pipefail
image=${1:-dockerd://wmtp:0.1.0}
out=${2:-wmtp.sqsh}

fail() { echo "[enroot] $*" >&2; exit 1; }

case $image in
  dockerd://* | docker://*) ;;
  *) fail "$image: begin with dockerd:// (this machine's docker) or docker:// (a registry)" ;;
esac
command -v enroot > /dev/null || fail "enroot is missing: run this where it is installed, often on a compute node"
[ ! -e "$out" ] || fail "$out exists: remove it, or name another file"

# A job that starts meanwhile must not find half an image. Beside its target, so that the move is a rename.
part=$(dirname "$out")/.$(basename "$out" .sqsh).part-$$.sqsh
trap 'rm -f "$part"' EXIT
enroot import --output "$part" "$image"
mv -n "$part" "$out"
[ ! -e "$part" ] || fail "$out was made by someone else meanwhile: remove it, or name another file"
echo "[enroot] $out: $(du -h "$out" | cut -f1)"
