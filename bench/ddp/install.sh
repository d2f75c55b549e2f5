#!/usr/bin/env bash
# Installs PyTorch from PyPI, once, into a cache outside the tree, and prints the folder (a PYTHONPATH).
# RINGMASTER_CACHE (default ~/.cache/ringmaster) is the cache. PyPI's wheels of PyTorch need CUDA's libraries also where
# there is no GPU: about 3 GB to fetch, 6 GB on disk.
# Wheels are those of images/worker/torch.requirements, each by its SHA-256, and no others.
set -euo pipefail
requirements=$(cd "$(dirname "$0")/../.." && pwd)/images/worker/torch.requirements
version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$requirements")
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
folder=$cache/torch-$version-python$python
mkdir -p "$cache"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder" ]; then
  aside=$folder.installing
  rm -rf "$aside"
  python3 -m pip install --quiet --no-cache-dir --root-user-action=ignore --target "$aside" \
    --no-deps --require-hashes --only-binary=:all: -r "$requirements" >&2 || {
    echo "install.sh: pip could not install PyTorch $version for Python $python into $cache; its own message is above" >&2
    exit 1
  }
  mv "$aside" "$folder"
fi
echo "$folder"
