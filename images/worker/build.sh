#!/bin/bash
# Compiles the worker's programs. Usage: build.sh SOURCE OUT; run by worker.Dockerfile, whose cache mount is $CCACHE_DIR.
set -euo pipefail
source=$1 out=$2
nvcc=(/opt/cuda/nvidia/cu*/bin/nvcc)
programs=(ringmaster-agent ringmaster-attach ringmaster-launcher ringmaster-rsh ringmaster-train ringmaster-audit ringmaster-bench)

gpu=()
if [ -x "${nvcc[0]}" ]; then gpu=(-DRINGMASTER_CUDA=ON -DCMAKE_CUDA_COMPILER="${nvcc[0]}"); fi

cmake -S "$source" -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DRINGMASTER_OPERATOR=OFF \
  -DRINGMASTER_LIBTORCH=/opt/torch "${gpu[@]}"
ninja -C /build -j "$(nproc)" "${programs[@]}"

mkdir -p "$out"
for program in "${programs[@]}"; do
  find /build -name "$program" -type f -exec install -s -m 0755 {} "$out" \;
done
install -m 0755 "$source/worker/audit/ringmaster-replay" "$out"
rm -rf /build # keeps objects out of the layer; the compiler cache has them
