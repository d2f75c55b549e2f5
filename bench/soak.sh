#!/usr/bin/env bash
# Runs random schedules of faults with consecutive seeds and audits the ranks' logs of each, first with real processes, then with ranks on
# 4 hosts with 8 fake GPUs each: bench/soak.sh [COUNT] [FIRST SEED]
# Stops at the first schedule that fails, and prints what repeats that schedule.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
count=${1:-200} first=${2:-1}
worker_programs ringmaster-chaos trainer_torch_test
for seed in $(seq "$first" $((first + count - 1))); do
  line=("$ringmaster_chaos" strike --seed="$seed" --count=3 --every=0.3 --lost-after=300)
  "${line[@]}" >"$worker_build/soak.log" 2>&1 || { tail -n 100 "$worker_build/soak.log" && echo "seed $seed failed: ${line[*]}" && exit 1; }
  echo "seed $seed ($((seed - first + 1)) of $count): $(tail -n 1 "$worker_build/soak.log")"
done
RINGMASTER_SEED=$first RINGMASTER_SEEDS=$count RINGMASTER_PATIENCE=4 timeout "$((60 * count))" \
  "$worker_build/tests/unit/trainer/trainer_torch_test" --gtest_filter='GpuSchedules.*' >"$worker_build/soak.log" 2>&1 ||
  { tail -n 100 "$worker_build/soak.log" && grep 'RINGMASTER_SEED=' "$worker_build/soak.log" | tail -n 1; exit 1; }
echo "$count schedules with processes and $count with GPUs, no step lost or repeated"
