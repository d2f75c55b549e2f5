#!/usr/bin/env bash
# Installs LibTorch once, into a cache outside the tree, and prints its folder: PyTorch's wheel unpacked (torch/), and beside it
# the two CUDA libraries that its CPU part needs. CMake, images/build.sh and pytorch.sh use this folder.
#
# The wheels are those of images/worker/libtorch.requirements, checked by SHA-256. RINGMASTER_CACHE (default ~/.cache/ringmaster)
# is the cache: 0.6 GB to download, 1.2 GB on disk.
set -euo pipefail
images=$(cd "$(dirname "$0")/../.." && pwd)/images/worker
version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$images/libtorch.requirements")
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
folder=$cache/libtorch-$version
if [ ! -e "$folder" ]; then
  mkdir -p "$cache"
  exec 9>"$folder.lock"
  flock -n 9 || { echo "libtorch.sh: another process is fetching LibTorch $version; waiting for it" >&2 && flock 9; }
fi
if [ ! -e "$folder" ]; then
  aside=$folder.installing
  rm -rf "$aside"
  echo "libtorch.sh: fetching LibTorch $version (0.6 GB, once) into $folder" >&2
  "$images/fetch-wheels.sh" "$aside" "$images/libtorch.requirements" >&2 || {
    echo "libtorch.sh: pip could not fetch LibTorch $version into $cache; see its output above" >&2
    exit 1
  }
  mv "$aside" "$folder"
  echo "libtorch.sh: LibTorch $version is ready after $SECONDS s" >&2
fi
echo "$folder"
