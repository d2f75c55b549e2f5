#!/usr/bin/env bash
# Measures mpi-operator as figures B1, B3 and B14 measure Ringmaster: memory when idle, seconds until the Pods of one MPIJob exist (with
# the default rate limits, and with 1,000 requests a second), and the size of the CRD in bytes. Uses the control plane of B1.
#   MPI_OPERATOR=DIR        a checkout of github.com/kubeflow/mpi-operator, built with its own Go modules
#   PODS=1000               number of workers of the job
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/deploy/lib.sh"
pods=${PODS:-1000} checkout=${MPI_OPERATOR:-}
[ -n "$checkout" ] || die "mpi-operator is missing; set MPI_OPERATOR to a checkout of github.com/kubeflow/mpi-operator"
crd=$checkout/manifests/base/kubeflow.org_mpijobs.yaml
[ -f "$crd" ] || die "$checkout is not a checkout of mpi-operator: it lacks manifests/base/kubeflow.org_mpijobs.yaml"
version=$(git -C "$checkout" describe --tags --always 2>/dev/null || basename "$checkout")
cluster_name=peer-$$
cluster() { "$root/deploy/local/cluster.sh" --name "$cluster_name" "$@"; }
work=$(mktemp -d)
operator=''

stop_operator() { [ -z "$operator" ] || { kill "$operator" && wait "$operator"; } 2>/dev/null || true; operator=''; }
clean_up() {
  stop_operator
  cluster down >&2
  rm -rf "$work"
}
trap clean_up EXIT

(cd "$checkout" && go build -o "$work/mpi-operator" ./cmd/mpi-operator) >&2
"$root/deploy/local/build.sh" >&2
cluster up 0 >&2
eval "$(cluster env)"
cluster fake 16 >&2
kubectl apply --server-side -f "$crd" >/dev/null
kubectl wait --for=condition=Established crd/mpijobs.kubeflow.org --timeout=60s >/dev/null
kubectl create namespace mpi-operator >/dev/null

start_operator() { # its flags...
  stop_operator
  "$work/mpi-operator" --kubeConfig="$KUBECONFIG" "$@" >"$work/log" 2>&1 &
  operator=$!
  wait_for "mpi-operator to lead" 60 grep -q 'Started workers' "$work/log"
}
resident_mib() { awk '/^VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$operator/status"; }
job() { # name
  cat <<Y
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: $1, namespace: peer}
spec:
  slotsPerWorker: 1
  launcherCreationPolicy: WaitForWorkersReady
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template: {spec: {tolerations: [{key: kwok, operator: Exists}], containers: [{name: main, image: example.com/mpi, command: [mpirun]}]}}
    Worker:
      replicas: $pods
      template: {spec: {tolerations: [{key: kwok, operator: Exists}], containers: [{name: main, image: example.com/mpi}]}}
Y
}
create() { # NAME: prints the seconds until the worker with the highest index exists, which is created last
  local begin
  kubectl create namespace peer >/dev/null
  begin=$(date +%s%3N)
  job "$1" | kubectl apply -f - >/dev/null
  wait_for "the last worker of $1" 900 kubectl -n peer get pod "$1-worker-$((pods - 1))"
  echo "$1 $begin $(date +%s%3N)" | awk '{printf "%.2f", ($3 - $2) / 1000}'
  kubectl delete namespace peer --wait --timeout=600s >/dev/null
}

start_operator # returns once the operator's caches are filled
idle=$(resident_mib)
echo "idle: $idle MiB"
default=$(create default-limits)
echo "$pods Pods with its default limits: $default s"
start_operator --kube-api-qps=1000 --kube-api-burst=1000
tuned=$(create tuned)
echo "$pods Pods with 1,000 requests a second allowed: $tuned s"
jq -cn --arg version "$version" --argjson idle "$idle" --argjson default "$default" --argjson tuned "$tuned" --argjson pods "$pods" \
  --argjson crd "$(wc -c <"$crd")" '{
  figure: "mpi-operator", value: $tuned, unit: ("s until \($pods) Pods of one MPIJob exist, its limits on requests lifted"), reference: null, goal: null, holds: null,
  version: $version, default_seconds: $default, idle_mib: $idle, crd_bytes: $crd, pods: $pods}'
