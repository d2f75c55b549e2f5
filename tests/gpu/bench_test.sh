#!/usr/bin/env bash
# Every type and operation of an allreduce over NCCL, on the GPU's memory and checked there: bench_test.sh <ringmaster-bench>
#
# Two ranks on one GPU, which NCCL takes for two hosts. Where there is no GPU: exit code 2, a sentence that says which
# device is missing, and this test counts as skipped.
set -euo pipefail
bench=$1
code=0
output=$(NCCL_HOSTID=bench NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 timeout 500 "$bench" allreduce --backend=nccl --ranks=2 \
  -b 16 -e 1M -f 256 -n 2 -w 1 -c 1 -d all -o all 2>&1) || code=$?
echo "$output"
if [ "$code" = 2 ] && [[ $output =~ --backend=nccl:.*(no NVIDIA driver|no GPU is visible|driver is too old) ]]; then
  echo "skipped: no GPU"
  exit 77
fi
[ "$code" = 0 ] || { echo "bench_test.sh: ringmaster-bench ended with $code" >&2; exit 1; }
