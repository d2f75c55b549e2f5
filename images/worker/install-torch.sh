#!/bin/bash
# Puts LibTorch under /opt/torch where the distribution has no package of it: PyTorch's CUDA wheel without its Python; and
# CUDA's compiler under /opt/cuda. Usage: install-torch.sh VERSION CUDA-VERSION. On Debian LibTorch is a package, for CPUs,
# and both stay empty.
set -euo pipefail
version=$1 cuda=$2
. /etc/os-release
mkdir -p /opt/torch /opt/cuda
[ "$ID" = ubuntu ] || exit 0

wheels=$(mktemp -d)
python3 -m pip install --no-cache-dir --target "$wheels" "torch==$version"
mv "$wheels"/torch/{lib,include,share} /opt/torch/
# The wheel of LibTorch finds CUDA's libraries beside itself: its run path is that of Python's site-packages.
find "$wheels/nvidia" -name '*.so*' -type f -exec mv -t /opt/torch/lib {} +
rm -rf "$wheels" /opt/torch/lib/libtorch_python.so

python3 -m pip install --no-cache-dir --no-deps --target /opt/cuda \
  nvidia-{cuda-nvcc,cuda-crt,nvvm,cuda-runtime,cuda-cccl}=="$cuda"
