#!/usr/bin/env bash
# Figure B17: how a PyTorch script in mode InPlace continues after faults, with four workers on hosts made of network namespaces (CPU,
# Gloo).
#   RUNS=5      number of kills and of cuts; the figure is the median. torchft and torchrun are measured with the same kills
#   COUNT=100   number of random schedules of all faults; the ranks' logs of each schedule are audited
#   ROUNDS=100  number of blocks of 10 steps of each kind: with the package, and with plain DistributedDataParallel
# Other arguments are passed to ringmaster-chaos.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
runs=${RUNS:-5} schedules=${COUNT:-100} rounds=${ROUNDS:-100}
every=3 # seconds of training before each kill
worker_programs ringmaster-chaos in-place-figure
pytorch=$("$root/deploy/local/pytorch.sh")
torchft=$("$root/deploy/local/pypi.sh" torchft)

# This folder must be visible on all hosts; each host has its own /tmp and /root.
folder=$(mktemp -d /var/tmp/b17-XXXXXX)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
ln -s /usr/bin/python3 "$folder/bin/python"
cp -r "$root"/bench/in_place/*.py "$root/worker/python/ringmaster" "$torchft/bin/torchft_lighthouse" "$folder"

chaos() { # COMMAND OPTION...
  "$ringmaster_chaos" "$1" --script="$folder/train.py" --env=PATH="$folder/bin:/usr/bin:/bin:/usr/sbin" --env=PYTHONPATH="$pytorch" \
    --env=PYTHONDONTWRITEBYTECODE=1 --env=PYTHONWARNINGS=ignore --env=CUDA_VISIBLE_DEVICES= "${@:2}"
}
in_place() { "$worker_build/tests/in_place/in-place-figure" "$1" --folder="$folder" --pythonpath="$pytorch:$torchft" "${@:2}"; }
# Prints the last line of the input, which is the result, and copies all lines to standard error.
result() { tee -a /dev/stderr | tail -n 1; }
peer() { # NAME VICTIMS: measures the peer and prints its result
  rm -f "$folder"/peer*
  { in_place peer --peer="$1" --victims="$2" --every="$every" || echo '{"recovered": false}'; } | result
}

kill=$(chaos strike --replicas=4 --faults=kill-rank --count="$runs" --every="$every" "$@" | result)
silent=$(chaos strike --replicas=4 --faults=cut --count="$runs" --every="$every" --lost-after=2000 "$@" | result)
scale=$(chaos scale --sizes=2,4,2 "$@" | result)

wrong=0 unknown=0 steps=0 failed=0
for seed in $(seq "$schedules"); do
  echo "schedule $seed of $schedules" >&2
  chaos strike --replicas=4 --seed="$seed" --count=3 --every=0.5 --lost-after=1000 "$@" | tee -a /dev/stderr >"$folder/said" || failed=$((failed + 1))
  audit=$(grep '"worlds"' "$folder/said" || echo '{}')
  wrong=$((wrong + $(jq '(.lost + .repeated + .disagreeing) // 0' <<<"$audit")))
  unknown=$((unknown + $(jq '.unknown // 0' <<<"$audit"))) steps=$((steps + $(jq '.steps // 0' <<<"$audit")))
done

cost=$(in_place cost --rounds="$rounds" | result)
audited=$(in_place cost --rounds=$(((rounds + 2) / 3)) --audit | result) # has no goal

victims=$(jq -r '.struck | join(",")' <<<"$kill")
default=$(peer torchft "$victims")
tuned=$(peer torchft-tuned "$victims")
torchrun=$(peer torchrun "$victims")

jq -cn --argjson kill "$kill" --argjson silent "$silent" --argjson scale "$scale" --argjson cost "$cost" --argjson audited "$audited" \
  --argjson default "$default" --argjson tuned "$tuned" --argjson torchrun "$torchrun" --argjson schedules "$schedules" \
  --argjson wrong $wrong --argjson unknown $unknown --argjson steps $steps --argjson failed $failed '
  def above: if .median_s then .median_s - .step_ms / 1000 else null end;
  (($kill.median_first_step_ms - $kill.median_step_ms) / 1000) as $value
  | ($silent.median_first_step_ms / 1000) as $silence
  | {figure: "B17", value: $value, unit: "s from kill -9 of a rank of a PyTorch script to the next committed step, less the step itself",
     reference: ($tuned | above), reference_is: "torchft 0.2.0 with tuned limits, the same kills in the same run",
     goal: "<= 0.1; silent host <= 2.5; 2 -> 4 -> 2 <= a step + 0.5 s; no step lost or repeated; a step <= 2 % longer",
     holds: ($value <= 0.1 and $silence <= 2.5 and $scale.longest_gap_ms <= $scale.median_step_ms + 500 and $cost.percent <= 2
             and $wrong == 0 and $unknown == 0 and $failed == 0 and ([$kill, $silent, $scale] | all(.audit == "clean"))),
     step_ms: $kill.median_step_ms, worst_ms: $kill.worst_first_step_ms, silent_s: $silence, scale_gap_s: ($scale.longest_gap_ms / 1000),
     scale_step_ms: $scale.median_step_ms, cost_percent: $cost.percent, cost_cpu_percent: $cost.cpu_percent,
     cost_with_audit_log_percent: $audited.percent, lost_or_repeated: $wrong, unknown: $unknown, schedules: $schedules,
     schedules_failed: $failed, steps: $steps, torchft: $default, torchft_tuned: $tuned, torchrun: $torchrun}'
