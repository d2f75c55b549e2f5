#!/usr/bin/env bash
# Records the run that docs/recovery.svg shows: a job on three nodes in which a rank is killed, a worker joins and a node is
# disconnected.
#
#   eval "$(tests/e2e/job_cluster.sh up)"       a local cluster with Ringmaster, as root
#   docs/recovery/record.sh                     docs/recovery/run.json, in two minutes
#   docs/recovery/render.py                     docs/recovery.svg
#   tests/e2e/job_cluster.sh down
#
# Each worker has a fixed part of a processor (CPUS), so that throughput follows the number of workers.
# shellcheck disable=SC2317  # functions are called by name: wait_for
. "$(dirname "$0")/../../tests/e2e/lib.sh"
new_namespace recovery
out=$repository/docs/recovery/run.json
cpus=${CPUS:-120m}
work=$(mktemp -d)
cut_node=
clean_up() {
  [ -z "$cut_node" ] || cluster heal "$cut_node"
  rm -rf "$work"
}

kubectl -n "$namespace" apply -f - >/dev/null <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: digits}
spec:
  image: $WORKER_IMAGE
  command: [ringmaster-train, --workload=mnist, --data=generated, --global-batch=${BATCH:-256}, --steps=1000000, --log-every=1]
  worker:
    replicas: 3
    minReplicas: 1
    resources: {requests: {cpu: $cpus, memory: 256Mi}, limits: {cpu: $cpus, memory: 1Gi}}
Y
wait_for "the first steps" 120 at_step digits 100
now() { date +%s.%N; }
mark() { echo "{\"at\": $(now), \"what\": \"$1\"}" >>"$work/marks"; }
lives() { sleep "${QUIET:-10}"; } # what is recorded is the time between the marks
world_is() { [ "$(status_field digits worldSize)" = "$1" ]; }
world_below_4() { [ "$(status_field digits worldSize)" -lt 4 ]; }

begin=$(now)
lives
mark "rank killed"
# shellcheck disable=SC2016  # expanded in the Pod
as_user exec digits-worker-1 -c worker -- sh -c 'for folder in /proc/[0-9]*; do
  [ "$(cat "$folder/comm" 2>/dev/null)" != ringmaster-trai ] || kill -9 "${folder#/proc/}"
done'
lives
mark "scaled to 4 workers"
as_user scale tj/digits --replicas=4 >/dev/null
wait_for "four workers" 60 world_is 4
lives
# Selects a node that runs neither the launcher nor the operator and has the fewest workers.
others=$(as_user get "$(launcher_pod digits)" -o jsonpath='{.spec.nodeName} '
  kubectl -n ringmaster-system get pods -o jsonpath='{.items[*].spec.nodeName}')
cut_node=$(as_user get pods -l ringmaster.dev/role=worker -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' |
  sort | uniq -c | sort -n | awk -v others=" $others " 'index(others, " " $2 " ") == 0 {print $2; exit}')
[ -n "$cut_node" ] || fail "every node has the launcher or the operator: $others"
mark "node cut off"
cluster cut "$cut_node"
wait_for "the loss" 30 world_below_4
wait_for "four workers again" 120 world_is 4
lives
end=$(now)
as_user logs "$(launcher_pod digits)" --timestamps --tail=-1 | grep -F '"step":' >"$work/log"
jq -sc . "$work/marks" >"$work/marks.json"
python3 "$repository/docs/recovery/render.py" --record "$work/log" "$work/marks.json" "$begin" "$end" >"$work/run.json"
jq . "$work/run.json" >/dev/null
cp "$work/run.json" "$out"
echo "recorded $(jq '.steps | length' "$out") steps: docs/recovery/run.json"
