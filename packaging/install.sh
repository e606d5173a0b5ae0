#!/bin/bash
# Installs the program below a prefix: PREFIX/lib/wmtp (a bundle, see bundle.sh, linked to the LibTorch of the build) and
# links to its programs in PREFIX/bin, to man pages and completion scripts in PREFIX/share. An older installation there is
# replaced.
# --build DIR   build folder to take from (build)
# --prefix DIR  where to (~/.local)
set -euo pipefail
cd "$(dirname "$0")/.."
build=build prefix=$HOME/.local

fail() { echo "[install] $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --prefix) prefix=$2; shift 2 ;;
    *) fail "unknown option $1; see the head of packaging/install.sh" ;;
  esac
done
site_packages=$(readlink -f "$build/lib/site-packages") || fail "no $build/lib/site-packages: run make program first"
mkdir -p "$prefix/bin" "$prefix/lib"
prefix=$(cd "$prefix" && pwd)
stage=$(mktemp -d "$prefix/lib/.wmtp-XXXXXX")
trap 'rm -rf "$stage"' EXIT
packaging/bundle.sh --build "$build" --out "$stage" --site-packages "$site_packages" > /dev/null
home=$prefix/lib/wmtp
[ ! -e "$home" ] || [ -x "$home/bin/wmtp" ] || fail "$home is there and no installation of wmtp"
rm -rf "$home"
mv "$stage"/wmtp-* "$home"
for program in "$home"/bin/*; do ln -sf "../lib/wmtp/bin/$(basename "$program")" "$prefix/bin/"; done
# Pages of commands that an older version had, whose targets are gone.
[ ! -d "$prefix/share/man/man1" ] || find "$prefix/share/man/man1" -name 'wmtp*.1' -xtype l -delete
(cd "$home/share" && find man bash-completion zsh fish -type f) | while read -r file; do
  mkdir -p "$prefix/share/$(dirname "$file")"
  ln -srf "$home/share/$file" "$prefix/share/$file"
done
echo "[install] $prefix/bin/wmtp"
case :$PATH: in *:"$prefix/bin":*) ;; *) echo "[install] $prefix/bin is not in PATH" ;; esac
