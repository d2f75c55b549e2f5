#!/usr/bin/env bash
# Runs random schedules of faults with consecutive seeds and audits the ranks' logs of each: bench/soak.sh [COUNT] [FIRST SEED]
# Stops at the first schedule that fails; the printed command repeats that schedule.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
count=${1:-200} first=${2:-1}
worker_programs ringmaster-chaos
for seed in $(seq "$first" $((first + count - 1))); do
  line=("$ringmaster_chaos" strike --seed="$seed" --count=3 --every=0.3 --lost-after=300)
  "${line[@]}" >"$worker_build/soak.log" 2>&1 || { tail -n 100 "$worker_build/soak.log" && echo "seed $seed failed: ${line[*]}" && exit 1; }
  echo "seed $seed ($((seed - first + 1)) of $count): $(tail -n 1 "$worker_build/soak.log")"
done
echo "$count schedules, no step lost or repeated"
