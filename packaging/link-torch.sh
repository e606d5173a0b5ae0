#!/bin/sh
# Links the torch 2.11.0 of this machine into the bundle: link-torch.sh [python3 | site-packages folder].
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=${1:-python3}
if [ -d "$source" ]; then
  site=$source
else
  site=$("$source" -c 'import importlib.util as u, os
s = u.find_spec("torch")
print(os.path.dirname(s.submodule_search_locations[0]) if s else "")')
fi
if [ -z "$site" ] || [ ! -f "$site/torch/lib/libtorch_cpu.so" ]; then
  echo "link-torch: $source has no torch; install torch==2.11.0 there or name another python3" >&2
  exit 1
fi
if ! grep -q "^__version__ = '2\.11\.0" "$site/torch/version.py"; then
  echo "link-torch: $site holds torch $(sed -n "s/^__version__ = '\(.*\)'.*/\1/p" "$site/torch/version.py"), wmtp needs 2.11.0" >&2
  exit 1
fi
rm -f "$here/lib/site-packages"
ln -s "$(cd "$site" && pwd)" "$here/lib/site-packages"
"$here/bin/wmtp" version
