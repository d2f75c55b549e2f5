#!/usr/bin/env bash
# Installs the libraries and the compiler with which the `gpu` preset builds the trainer, once, into a cache outside the tree.
# Prints variables for eval: RINGMASTER_LIBTORCH (the torch folder of PyTorch's wheel, with NCCL beside it) and RINGMASTER_NVCC.
#
#   eval "$(deploy/local/cuda.sh)" && cmake --preset gpu && cmake --build --preset gpu --target gpu_trainer
#
# No GPU or driver is needed to build. RINGMASTER_CACHE (default ~/.cache/ringmaster) is the cache: 0.3 GB for the compiler and
# 6 GB for PyTorch, which the PyTorch benchmarks and, in part, all other builds share.
set -euo pipefail
cd "$(dirname "$0")/../.."
requirements=images/worker/cuda.requirements # versions with their SHA-256
cuda=$(sed -n 's/^nvidia-cuda-nvcc==\([0-9.]*\).*/\1/p' "$requirements")
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
folder=$cache/cuda-$cuda

torch=$(deploy/local/pytorch.sh)
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder" ]; then
  aside=$folder.installing
  rm -rf "$aside"
  echo "cuda.sh: installing CUDA's compiler $cuda into $folder" >&2
  python3 -m pip install --quiet --no-cache-dir --no-deps --root-user-action=ignore --target "$aside" \
    --require-hashes --only-binary=:all: -r "$requirements" >&2 || {
    echo "cuda.sh: pip could not install CUDA's compiler $cuda into $cache; see its output above" >&2
    exit 1
  }
  mv "$aside" "$folder"
fi
printf 'export RINGMASTER_LIBTORCH=%q RINGMASTER_NVCC=%q\n' "$torch/torch" "$folder/nvidia/cu13/bin/nvcc"
