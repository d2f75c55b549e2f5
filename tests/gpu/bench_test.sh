#!/usr/bin/env bash
# Tests ringmaster-bench over NCCL with every type and operation, alone and in groups; the GPU checks the results in its memory:
# bench_test.sh <ringmaster-bench>
#
# Two ranks share one GPU, and NCCL treats them as two hosts; the backend is the default of a machine with a GPU. Without a GPU the
# program must end with exit code 2 and name the missing device; the test then counts as skipped.
set -euo pipefail
bench=$1
measure() { # operation flags...: sets `code` and `output`
  code=0
  output=$(NCCL_HOSTID=bench NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 timeout 500 "$bench" "$@" --ranks=2 \
    -b 16 -e 1M -f 256 -n 2 -w 1 -c 1 -d all 2>&1) || code=$?
  echo "$output"
}
measure allreduce --backend=nccl -o all
if [ "$code" = 2 ] && [[ $output =~ --backend=nccl:.*(no NVIDIA driver|no GPU is visible|driver is too old) ]]; then
  echo "skipped: no GPU"
  exit 77
fi
[ "$code" = 0 ] || { echo "bench_test.sh: allreduce ended with $code" >&2; exit 1; }
for operation in "allreduce -m 3" reduce-scatter all-gather all-to-all "broadcast -r 1" "reduce -o all -r 1" "gather -r 1" "scatter -r 1" "sendrecv -m 3"; do
  # shellcheck disable=SC2086  # an operation and its flags
  measure $operation
  [[ $code = 0 && $output == *"over nccl:"* ]] || { echo "bench_test.sh: $operation ended with $code" >&2; exit 1; }
done
# NCCL supports registered memory from version 2.29.2 on.
measure allreduce -R 1
[ "$code" = 0 ] || [[ $code = 2 && $output == *"-R 1: NCCL cannot register memory"* ]] || { echo "bench_test.sh: -R 1 ended with $code" >&2; exit 1; }
