#!/usr/bin/env bash
# Figure B13: training throughput of each network, compared with PyTorch DDP. Options are passed to ringmaster-bench throughput.
#   NETWORKS="mnist resnet18 iresnet18"   the networks to train
#   ROUNDS=3                              number of rounds; each round measures every variant once; the figure is computed from medians
set -euo pipefail
. "$(dirname "$0")/lib.sh"
trainer_programs ringmaster-bench
results=()
for network in ${NETWORKS:-mnist resnet18 iresnet18}; do
  results+=("$("$trainer_bench" throughput --network="$network" --rounds="${ROUNDS:-3}" \
    --peer="$root/bench/peers/torchrun/throughput.sh" --json=- "$@" | tee /dev/stderr | tail -n 1)")
done
# The MNIST network has no goal: it is so small that PyTorch spends most of its time in Python's dispatch.
printf '%s\n' "${results[@]}" | jq -cn '
  [inputs] as $all | ($all | map({(.network): (del(.bench, .network))}) | add) as $by
  | ($all | map(select(.network != "mnist"))) as $arithmetic
  | ($arithmetic | if length > 0 then map([.over_peer, .gloo_over_peer] | min) | min else null end) as $value
  | ($arithmetic | map(.of_independent) | min) as $of_independent
  | {figure: "B13", value: $value,
     unit: "times the samples/s of PyTorch DDP at its fastest setting, the least of the networks whose time is arithmetic, each over Gloo and over the default transport",
     reference: ($arithmetic | map(.peer_samples_per_second) | min), reference_is: "samples/s of PyTorch DDP over Gloo, the slowest network, the same run",
     goal: ">= 1.05; >= 0.95 of ranks that do not communicate",
     holds: ($value != null and $value >= 1.05 and $of_independent >= 0.95)} + $by'
