#!/usr/bin/env bash
# The second half of figure B7: cuts off the node of the local cluster on which a job's launcher and one of its workers run, by dropping
# all packets. Measures the milliseconds from the cut to the first step that the other workers log in a world of the next launcher.
#   RUNS=3                  number of runs; the figure is their median
#   CLUSTER_NAME=NAME       use this running cluster (cluster.sh --name NAME), with Ringmaster installed and images loaded
# Last line: {"median_ms": …, "worst_ms": …, "runs": …}
set -euo pipefail
. "$(dirname "$0")/cluster_lib.sh"
runs=${RUNS:-3}
begin_bench_cluster

# Prints the name of the newest launcher Pod.
launcher_of() { kubectl -n bench get pods -l "ringmaster.dev/role=launcher,ringmaster.dev/job-name=$1" --sort-by=.metadata.creationTimestamp -o name | tail -n 1; }
node_of() { kubectl -n "$1" get "$2" -o jsonpath='{.spec.nodeName}'; }
field() { kubectl -n bench get trainingjob "$1" -o jsonpath="{.status.$2}"; }

# Moves the operator to another node if it is on the launcher's node, because the operator must survive the cut.
part_from_operator() { # NODE
  [ "$(node_of ringmaster-system "$(kubectl -n ringmaster-system get pods -o name | head -n 1)")" = "$1" ] || return 0
  kubectl cordon "$1" >/dev/null
  kubectl -n ringmaster-system delete pods --all --wait >/dev/null
  kubectl -n ringmaster-system rollout status deployment/ringmaster-operator --timeout=60s >/dev/null
  kubectl uncordon "$1" >/dev/null
}

one_run() { # NAME: runs a job of this name and prints the milliseconds from the cut to the next launcher's first step
  local name=$1 silent cut line
  kubectl apply -f - >/dev/null <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $name, namespace: bench}
spec:
  image: $WORKER_IMAGE
  command: [ringmaster-train, --workload=mnist, --data=generated, --global-batch=192, --steps=1000000, --seed=7, --log-every=1]
  worker: {replicas: 3}
Y
  wait_for "the job $name to train" 60 progressed "$name"
  silent=$(node_of bench "$(launcher_of "$name")")
  part_from_operator "$silent"
  cut=$(date +%s%3N)
  cluster cut "$silent" >/dev/null
  wait_for "the next launcher of $name" 60 next_launcher_logs "$name"
  line=$(first_step_of_next_launcher "$name")
  echo $(($(date -d "${line%% *}" +%s%3N) - cut))
  cluster heal "$silent" >/dev/null
  kubectl -n bench delete "trainingjob/$name" --wait >/dev/null
  wait_for "the Pods of $name to end" 120 no_pods
}
progressed() { [ "$(field "$1" progress.step)" -gt 10 ]; }
first_step_of_next_launcher() {
  [ "$(field "$1" internal.launcherTerm)" -gt 1 ] || return
  kubectl -n bench logs --timestamps "$(launcher_of "$1")" | grep -m1 '"step".*"world_epoch":\[[2-9]'
}
next_launcher_logs() { [ -n "$(first_step_of_next_launcher "$1")" ]; }
no_pods() { [ -z "$(kubectl -n bench get pods -o name)" ]; }

results=()
for run in $(seq "$runs"); do
  millis=$(one_run "silent-launcher-$run")
  results+=("$millis")
  echo "run $run: $millis ms from the cut of the launcher's node to the next launcher's first step"
done
printf '%s\n' "${results[@]}" | jq -cn '[inputs] | sort | {median_ms: .[length / 2 | floor], worst_ms: last, runs: length}'
