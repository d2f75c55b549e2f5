#!/usr/bin/env bash
# Installs PyTorch from PyPI, once, into a cache outside the tree, and prints the folder (a PYTHONPATH).
# RINGMASTER_CACHE (default ~/.cache/ringmaster) is the cache. PyPI's PyTorch wheels need CUDA's libraries even on a machine
# without a GPU. The torch wheel itself is shared with all builds (deploy/local/libtorch.sh).
# Only the wheels of images/worker/*torch.requirements are installed; pip checks the SHA-256 of each.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
libtorch=$("$root/deploy/local/libtorch.sh")
version=${libtorch##*-}
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
folder=$cache/torch-$version-python$python
wheels=(-r "$root/images/worker/torch.requirements")
# For a Python version other than 3.11, pip installs the wheel of the same PyTorch release for that version.
[ "$python" = 3.11 ] || wheels+=(-r "$root/images/worker/libtorch.requirements")
mkdir -p "$cache"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder" ]; then
  aside=$folder.installing
  rm -rf "$aside"
  echo "pytorch.sh: fetching the dependencies of PyTorch $version other than LibTorch (2.5 GB, once) into $folder" >&2
  python3 -m pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --target "$aside" \
    --no-deps --require-hashes --only-binary=:all: "${wheels[@]}" >&2 || {
    echo "pytorch.sh: pip could not install PyTorch $version for Python $python into $cache; see its output above" >&2
    exit 1
  }
  [ "$python" != 3.11 ] || cp -al "$libtorch/." "$aside/" # hard links
  mv "$aside" "$folder"
fi
echo "$folder"
