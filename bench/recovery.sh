#!/usr/bin/env bash
# Figures B6 to B10: the cost of faults and of resizing for a job of real processes on hosts made of network namespaces.
#   recovery.sh B6    time from kill -9 of a rank, or of an agent (as when its Pod is lost), to the survivors' next step
#   recovery.sh B7    time from the cut of a host to the survivors' next step; also for the launcher's node, on the local cluster
#   recovery.sh B8    number of steps lost or repeated in RUNS schedules of all faults, found by auditing the ranks' logs
#   recovery.sh B9    longest gap between two steps while the job is scaled from 2 to 4 and back to 2 workers
#   recovery.sh B10   throughput kept with 8 workers while a rank or agent is killed every 29 s for 10 minutes (COUNT=20 faults),
#                     compared with PyTorch DDP under torchrun
#   RUNS=5            number of faults of each kind; the figure is the median
# Other arguments are passed to ringmaster-chaos.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
runs=${RUNS:-5}
figure=$1
shift
worker_programs ringmaster-chaos

# Prints the last line of the input, which is the result, and copies all lines to standard error.
result() { tee -a /dev/stderr | tail -n 1; }
# strike KINDS ARGUMENTS...: injects faults of these kinds and prints the summary
strike() { "$ringmaster_chaos" strike --faults="$1" --count="$runs" --every=1 "${@:2}" | result; }

case $figure in
  B6)
    # The reference: torchrun (torch 2.15, one host, 2 ranks) took 2.85 s and lost all steps since its last checkpoint.
    rank=$(strike kill-rank "$@")
    agent=$(strike kill-agent "$@")
    jq -cn --argjson rank "$rank" --argjson agent "$agent" '
      ([$rank.median_first_step_ms, $agent.median_first_step_ms] | max / 1000) as $value
      | {figure: "B6", value: $value, unit: "s from kill -9 to the next step of the survivors, the slower median of rank and agent",
         reference: 2.85, reference_is: "torchrun 2.15, reported", goal: "<= 0.3",
         holds: ($value <= 0.3 and $rank.audit == "clean" and $agent.audit == "clean"),
         rank_ms: $rank.median_first_step_ms, agent_ms: $agent.median_first_step_ms,
         worst_ms: ([$rank.worst_first_step_ms, $agent.worst_first_step_ms] | max), step_ms: $rank.median_step_ms}' ;;
  B7)
    # The reference is --lost-after: a silent worker is not considered lost earlier.
    cut=$(strike cut --lost-after=2000 "$@")
    launcher=$("$root/bench/silent_launcher.sh" | result)
    jq -cn --argjson cut "$cut" --argjson launcher "$launcher" '
      ($cut.median_first_step_ms / 1000) as $value | ($launcher.median_ms / 1000) as $seconds
      | {figure: "B7", value: $value, unit: "s from the cut of a host without the launcher to the next step of the survivors",
         reference: 2.0, reference_is: "the lost limit", goal: "<= 2.5; with the launcher <= 12",
         holds: ($value <= 2.5 and $cut.audit == "clean" and $seconds <= 12), worst_ms: $cut.worst_first_step_ms,
         with_launcher: $seconds, with_launcher_worst: ($launcher.worst_ms / 1000)}' ;;
  B8)
    # The reference is 0: other systems lose all steps since their last checkpoint.
    wrong=0 unknown=0 steps=0
    for seed in $(seq "$runs"); do
      summary=$("$ringmaster_chaos" strike --seed="$seed" --count=5 --every=0.5 --lost-after=500 "$@" | tee -a /dev/stderr | grep '"worlds"')
      wrong=$((wrong + $(jq '.lost + .repeated + .disagreeing' <<<"$summary")))
      unknown=$((unknown + $(jq .unknown <<<"$summary"))) steps=$((steps + $(jq .steps <<<"$summary")))
    done
    jq -cn --argjson wrong $wrong --argjson unknown $unknown --argjson steps $steps --argjson runs "$runs" '
      {figure: "B8", value: $wrong, unit: "committed steps lost or repeated", reference: 0, goal: "0",
       holds: ($wrong == 0 and $unknown == 0), unknown: $unknown, steps: $steps, faults: (5 * $runs)}' ;;
  B9)
    "$ringmaster_chaos" scale --sizes=2,4,2 "$@" | result | jq -c '
      (2 * .median_step_ms + 500) as $goal
      | {figure: "B9", value: (.longest_gap_ms / 1000), unit: "s, longest gap between two steps while 2 -> 4 -> 2 workers",
         reference: (.median_step_ms / 1000), reference_is: "the median step", goal: ("<= " + (($goal / 1000) | tostring)),
         holds: (.longest_gap_ms <= $goal and .audit == "clean")}' ;;
  B10)
    # torchft is reported to keep 97.7 % of its throughput (32 replicas, 16 cores; docs/comparison-details.md).
    # The workers get nine tenths of the machine's CPUs, in equal parts; the rest is for the programs that
    # inject faults and measure.
    cpus=$(awk -v cores="$(nproc)" 'BEGIN {printf "%.2f", 0.9 * cores / 8}')
    ours=$("$ringmaster_chaos" strike --replicas=8 --cpus="$cpus" --faults=kill-rank,kill-agent --every=29 --count="${COUNT:-20}" "$@" | result)
    ddp=$("$root/bench/peers/torchrun/run.sh" --replicas=8 --cpus="$cpus" --every=29)
    best=$("$root/bench/peers/torchrun/run.sh" --replicas=8 --cpus="$cpus" --every=29 --tuned --checkpoint-every=10)
    jq -cn --argjson ours "$ours" --argjson ddp "$ddp" --argjson best "$best" --argjson cpus "$cpus" '
      def peer: {kept: (100 * .throughput_kept), undisturbed_steps_per_second, recovery_seconds: .restart_seconds,
        worst_recovery_seconds: .worst_restart_seconds, faults, seconds, checkpoint_every};
      {figure: "B10", value: (100 * $ours.throughput_kept), unit: "% of the undisturbed steps per second",
       reference: (100 * ([$ddp, $best] | map(.throughput_kept) | max)),
       reference_is: "PyTorch DDP under torchrun at its better setting, ranks killed as often, the same quotas, the same run", goal: ">= 98",
       holds: ($ours.throughput_kept >= 0.98 and $ours.audit == "clean"), cpus_of_a_worker: $cpus, faults: $ours.faults, seconds: $ours.seconds,
       undisturbed_steps_per_second: $ours.undisturbed_steps_per_second, recovery_seconds: ($ours.median_first_step_ms / 1000),
       worst_recovery_seconds: ($ours.worst_first_step_ms / 1000), whole_again_seconds: ($ours.median_whole_ms / 1000),
       peer_equal: ($ddp | peer), peer_best: ($best | peer), torchft_reported: 97.7}' ;;
esac
