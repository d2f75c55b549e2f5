#!/bin/bash
# Installs LibTorch in /opt/torch: PyTorch's wheel without its Python part, and the two CUDA libraries that its CPU part needs; on
# Ubuntu all CUDA libraries, and CUDA's compiler in /opt/cuda. Also installs all licences. images/build.sh passes this machine's
# unpacked wheels in /opt/wheels; otherwise they are downloaded and checked by the SHA-256 in the *.requirements beside this script.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. /etc/os-release
wheels=/opt/wheels libraries=/opt/torch/lib licences=/opt/torch/licences
mkdir -p $libraries $licences /opt/cuda

requirements=("$here/libtorch.requirements")
[ "$ID" = debian ] || requirements+=("$here/torch.requirements")
if [ ! -e $wheels/torch ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -y -q --no-install-recommends python3-pip
  rm -rf /var/lib/apt/lists/*
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' EXIT
  "$here/fetch-wheels.sh" "$wheels" "${requirements[@]}"
  [ "$ID" = debian ] || "$here/fetch-wheels.sh" /opt/cuda "$here/cuda.requirements"
fi

cp -r "$wheels/torch/include" /opt/torch/
if [ "$ID" = debian ]; then
  cp "$wheels"/torch/lib/{libtorch_cpu.so,libc10.so,libgomp.so.1} "$wheels"/nvidia/cu13/lib/{libcudart.so.13,libcupti.so.13} $libraries/
else
  cp "$wheels"/torch/lib/*.so* $libraries/
  rm $libraries/libtorch_python.so
  find "$wheels/nvidia" \( -name '*.so' -o -name '*.so.*' \) -type f -exec cp -t $libraries {} +
  install -D -m 0644 -t $licences/cusparselt "$wheels/nvidia/cusparselt/LICENSE.txt"
fi
# The symbol table is a fifth of the library. NVIDIA's libraries are not stripped: their licence allows no change.
strip $libraries/libtorch_cpu.so $libraries/libc10.so

for folder in "$wheels"/*.dist-info/licenses; do
  name=$(basename "$(dirname "$folder")" .dist-info)
  cp -r "$folder" "$licences/$name"
done
cp "$here/licences/mkl.txt" $licences/ # libtorch_cpu.so contains MKL
