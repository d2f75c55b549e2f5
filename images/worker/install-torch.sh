#!/bin/bash
# Puts LibTorch under /opt/torch where the distribution has no package of it: PyTorch's CUDA wheel without its Python; and
# CUDA's compiler under /opt/cuda. The versions, and the SHA-256 of each wheel, are in the *.requirements beside this script.
# On Debian LibTorch is a package, for CPUs, and both stay empty.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. /etc/os-release
mkdir -p /opt/torch /opt/cuda
[ "$ID" = ubuntu ] || exit 0

wheels=$(mktemp -d)
python3 -m pip install --no-cache-dir --target "$wheels" --no-deps --require-hashes --only-binary=:all: -r "$here/torch.requirements"
mv "$wheels"/torch/{lib,include,share} /opt/torch/
# The wheel of LibTorch finds CUDA's libraries beside itself: its run path is that of Python's site-packages.
find "$wheels/nvidia" -name '*.so*' -type f -exec mv -t /opt/torch/lib {} +
rm -rf "$wheels" /opt/torch/lib/libtorch_python.so

python3 -m pip install --no-cache-dir --no-deps --target /opt/cuda --require-hashes --only-binary=:all: -r "$here/cuda.requirements"
