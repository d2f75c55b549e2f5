#!/usr/bin/env bash
# Figure B5: time from `kubectl apply` to the first training step, three workers on three nodes, images already unpacked.
# The measurement begins before kubectl starts, because the user also waits for kubectl; the time since kubectl returned is also printed.
# The measurement ends when the launcher's container writes the first line of the step log, by the node's clock.
#   RUNS=5                  number of runs; the figure is their median
#   CLUSTER_NAME=NAME       use this running cluster (cluster.sh --name NAME), with Ringmaster installed and images loaded
set -euo pipefail
. "$(dirname "$0")/cluster_lib.sh"
runs=${RUNS:-5}

manifest() { # name
  cat <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1, namespace: bench}
spec:
  image: $WORKER_IMAGE
  command: [ringmaster-train, --workload=mnist, --data=generated, --global-batch=48, --steps=20, --seed=7]
  worker: {replicas: 3}
Y
}

one_run() { # NAME: prints "milliseconds-from-start milliseconds-from-return nodes"
  local begin returned line first launcher nodes
  manifest "$1" >"$work/job.yaml"
  begin=$(date +%s%3N)
  kubectl apply -f "$work/job.yaml" >/dev/null
  returned=$(date +%s%3N)
  kubectl -n bench wait --for=condition=Succeeded "trainingjob/$1" --timeout=120s >/dev/null || return
  launcher=$(kubectl -n bench get pods -l "ringmaster.dev/role=launcher,ringmaster.dev/job-name=$1" -o name)
  line=$(kubectl -n bench logs --timestamps "$launcher" | grep -m1 '"step"')
  first=$(date -d "${line%% *}" +%s%3N)
  nodes=$(kubectl -n bench get pods -l "ringmaster.dev/role=worker,ringmaster.dev/job-name=$1" \
    -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u | wc -l)
  echo "$((first - begin)) $((first - returned)) $nodes"
  kubectl -n bench delete "trainingjob/$1" --wait >/dev/null
  kubectl -n bench wait --for=delete pods --all --timeout=60s >/dev/null 2>&1 || true
}

begin_bench_cluster
work=$(mktemp -d)
results=()
for run in $(seq 0 "$runs"); do
  result=$(one_run "first-step-$run") || die "run $run did not succeed: $(kubectl -n bench describe trainingjobs | tail -20)"
  read -r from_start from_return nodes <<<"$result"
  # The first run fills the page cache; it is printed but not counted.
  echo "run $run: $from_start ms from the start of kubectl apply, $from_return ms from its return, workers on $nodes nodes" \
    "$([ "$run" = 0 ] && echo '(not counted)')"
  [ "$run" = 0 ] || results+=("$from_start $from_return $nodes")
done
rm -rf "$work"
printf '%s\n' "${results[@]}" | jq -cRn '
  def median: sort | .[length / 2 | floor];
  [inputs | split(" ") | map(tonumber)] as $runs |
  ($runs | map(.[0]) | median / 1000) as $seconds |
  {figure: "B5", value: $seconds, unit: "s from the start of kubectl apply to the first step, median", reference: null,
   goal: "<= 3", holds: ($seconds <= 3), from_return_seconds: ($runs | map(.[1]) | median / 1000),
   runs: ($runs | length), nodes: ($runs | map(.[2]) | min)}'
