#!/usr/bin/env bash
# Runs random schedules of faults, one seed after the other, each with an audit of the ranks' logs: bench/soak.sh [COUNT] [FIRST SEED]
# A seed that fails stops the soak; the printed command repeats it.
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
