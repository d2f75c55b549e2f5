# shellcheck shell=bash

# Functions for every end-to-end test of a job. Sourced first: `. "$(dirname "$0")/lib.sh"`.
# The cluster of job_cluster.sh (a ctest fixture) must be running, with Ringmaster installed. Each test acts as an editor of a
# separate namespace, which enforces Pod Security `restricted` and is removed at the end.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../deploy/lib.sh"
cluster_name=$("$repository/tests/e2e/job_cluster.sh" name)
cluster() { "$repository/deploy/local/cluster.sh" --name "$cluster_name" "$@"; }
eval "$(cluster env)"

# Runs kubectl, and retries if the API server does not answer: other tests can keep the processors busy for seconds. A command
# that reads its standard input is not retried.
kubectl() {
  local said code attempt
  for attempt in 1 2 3 4 5; do
    code=0
    { said=$(command kubectl "$@" 2>&1 >&3 3>&-) || code=$?; } 3>&1
    if [ $code -eq 0 ] || [ "$attempt" -eq 5 ] || [[ " $* " = *" -f - "* || " $* " = *"/dev/stdin "* ]]; then break; fi
    grep -qE '^(Unable to connect to the server|The connection to the server)|TLS handshake timeout|client connection lost' <<<"$said" || break
    sleep 2
  done
  [ -z "$said" ] || printf '%s\n' "$said" >&2
  return $code
}

new_namespace() { # name: sets `namespace` and `user`, the editor's kubeconfig
  namespace=$1
  kubectl delete namespace "$namespace" --ignore-not-found --wait >/dev/null
  restricted_namespace "$namespace"
  user=$(cluster user "$namespace-editor" "$namespace")
  trap end_namespace EXIT
}

# A test that must undo other changes defines `clean_up`, which runs before the state of a failed test is printed.
end_namespace() {
  local code=$? volume
  set +e
  ! declare -F clean_up >/dev/null || clean_up
  [ $code -eq 0 ] || show_state
  kubectl delete namespace "$namespace" --wait=false >/dev/null 2>&1
  for volume in "${!volumes[@]}"; do
    kubectl delete persistentvolume "$volume" --wait=false >/dev/null 2>&1
    [ $code -ne 0 ] || rm -rf "${volumes[$volume]}"
  done
  exit $code
}

declare -A volumes=()  # folder of each volume, for the clean-up
# volume_of CLAIM FOLDER MODE: makes a volume of a folder of this machine, which all nodes see, for the claim of this name.
volume_of() {
  kubectl delete persistentvolume "$namespace-$1" --ignore-not-found --wait >/dev/null
  kubectl apply -f - >/dev/null <<Y
apiVersion: v1
kind: PersistentVolume
metadata: {name: $namespace-$1}
spec:
  capacity: {storage: 10Gi}
  accessModes: [$3]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  hostPath: {path: $2}
  claimRef: {namespace: $namespace, name: $1}
Y
}
claim() { # name mode
  kubectl apply -f - >/dev/null <<Y
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1, namespace: $namespace}
spec: {accessModes: [$2], storageClassName: "", volumeName: $namespace-$1, resources: {requests: {storage: 1Gi}}}
Y
}

# volume_for CLAIM: makes a volume of a new directory and sets $volume to the directory. The directory is kept if the
# test fails.
volume_for() {
  volume=$(mktemp -d)
  chmod 1777 "$volume"
  volumes[$namespace-$1]=$volume
  volume_of "$1" "$volume" ReadWriteMany
}
# shared_volume CLAIM: does what volume_for does, and creates the claim.
shared_volume() {
  volume_for "$1"
  claim "$1" ReadWriteMany
}
# packages_volume CLAIM FOLDER: makes a read-only volume of the folder, as a platform team would offer it, and its claim.
packages_volume() {
  volumes[$namespace-$1]=
  volume_of "$1" "$2" ReadOnlyMany
  claim "$1" ReadOnlyMany
}

show_state() {
  echo "--- state of namespace $namespace"
  kubectl -n ringmaster-system get pods -o wide || true
  kubectl -n "$namespace" get trainingjobs,pods -o wide || true
  kubectl -n "$namespace" describe trainingjobs | tail -60 || true
  local pod
  for pod in $(kubectl -n "$namespace" get pods -o name); do
    echo "--- $pod"
    kubectl -n "$namespace" logs "$pod" --tail=30 || true
  done
  kubectl -n ringmaster-system logs deployment/ringmaster-operator --tail=30 || true
}

# profile NAME SPEC: creates a TrainingProfile, as a platform team would.
profile() {
  kubectl apply -f - >/dev/null <<<"{apiVersion: ringmaster.dev/v1alpha1, kind: TrainingProfile, metadata: {name: $1, namespace: ringmaster-system}, spec: $2}"
}

as_user() { kubectl --kubeconfig "$user" -n "$namespace" "$@"; }

fail() { echo "FAILED: $*" >&2; exit 1; }
assert_equal() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }
assert_contains() { grep -qE -- "$2" <<<"$3" || fail "$1: expected /$2/ in: $3"; }
assert_lacks() { ! grep -qE -- "$2" <<<"$3" || fail "$1: did not expect /$2/ in: $3"; }

# job NAME REPLICAS COMMAND-AS-JSON [more lines under spec]: prints a TrainingJob. For a job that trains until the test ends, set
# CPU=200m, the CPU request of each worker, because other tests run at the same time.
job() {
  local limits=${CPU:+", resources: {limits: {cpu: $CPU}}"}
  cat <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  image: ${IMAGE:-$WORKER_IMAGE}
  command: $3
  worker: {replicas: $2$limits}
${4:-}
Y
}

generated() { # steps: prints the command that trains on generated digits
  echo "[ringmaster-train, --workload=mnist, --data=generated, --global-batch=48, --steps=$1, --seed=7]"
}

condition() { as_user get trainingjob "$1" -o jsonpath="{.status.conditions[?(@.type=='$2')].$3}"; }
condition_is() { [ "$(condition "$1" "$2" status)" = "$3" ]; }
wait_condition() { # job type status [seconds]: waits until the condition has this status
  wait_for "condition $2=$3 of job $1" "${4:-90}" as_user wait "trainingjob/$1" --for="condition=$2=$3" --timeout=10s
}
launcher_pod() { as_user get pods -l "ringmaster.dev/role=launcher,ringmaster.dev/job-name=$1" -o name --sort-by=.metadata.creationTimestamp | tail -1; }
worker_pods() { as_user get pods -l "ringmaster.dev/role=worker,ringmaster.dev/job-name=$1" -o name; }
status_field() { as_user get trainingjob "$1" -o jsonpath="{.status.$2}"; }
at_step() { [ "$(status_field "$1" progress.step)" -ge "$2" ]; }

# The following functions are for a test with one job, $job, that trains during the whole test and writes audit logs to $logs/$job.
job='' logs=''
members_are() { [ "$(status_field "$job" workers.members)" = "$1" ] && [ "$(status_field "$job" worldSize)" = "$1" ]; }
newer_epoch() { [ "$(status_field "$job" epoch)" -gt "$1" ]; }
# went_on WHAT MEMBERS [EPOCH]: waits until the world has MEMBERS members, is newer than EPOCH and commits steps.
went_on() {
  [ -z "${3:-}" ] || wait_for "$1: a new world" 60 newer_epoch "$3"
  wait_for "$1: a world of $2" 90 members_are "$2"
  local step
  step=$(status_field "$job" progress.step)
  wait_for "$1: steps after it" 60 at_step "$job" $((step + 1))
  echo "[$SECONDS s] $job: $1: went on at step $(status_field "$job" progress.step), last recovery $(status_field "$job" lastRecovery)"
}
survives() { # what members command...: runs the command, which injects a fault, and waits until this number of members trains
  local epoch
  epoch=$(status_field "$job" epoch)
  "${@:3}" >/dev/null
  went_on "$1" "$2" "$epoch"
}
last_worker() { worker_pods "$job" | tail -1; }
node_of() { as_user get "$1" -o jsonpath='{.spec.nodeName}'; }
uid_of() { as_user get "$1" -o jsonpath='{.metadata.uid}'; }
# processes PROGRAM POD: prints the pids of a program in a Pod, as seen from this machine.
processes() {
  local uid pid
  uid=$(uid_of "$2")
  for pid in $(pgrep -x "$1"); do
    if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep "^RINGMASTER_POD_UID=$uid$" >/dev/null; then echo "$pid"; fi
  done
}

suspend() { as_user patch trainingjob "$1" --type=merge -p "{\"spec\": {\"suspend\": $2}}" >/dev/null; } # job true|false
no_pods_of() { [ -z "$(as_user get pods -l "ringmaster.dev/job-name=$1" -o name)" ]; }

# end_after STEPS RESUMED: suspends $job (which must write checkpoints and be far from its last step), resumes it from
# the checkpoint taken at the suspension, and waits until the job has completed STEPS more steps. The launcher's log
# must then match the pattern RESUMED, in which STEP stands for the step of the checkpoint.
end_after() {
  suspend "$job" true
  wait_condition "$job" Suspended True
  wait_for "all Pods of $job to go" 60 no_pods_of "$job"
  local kept
  kept=$(status_field "$job" checkpoint.step)
  as_user get trainingjob "$job" -o json | jq "{spec: {command: (.spec.command | map(select(startswith(\"--steps=\") | not)) + [\"--steps=$((kept + $1))\"])}}" |
    as_user patch trainingjob "$job" --type=merge --patch-file=/dev/stdin >/dev/null
  suspend "$job" false
  wait_condition "$job" Succeeded True 180
  assert_contains "the launcher's log of $job" "${2/STEP/$kept}" "$(as_user logs "$(launcher_pod "$job")")"
  assert_equal "the last step of $job" $((kept + $1)) "$(status_field "$job" progress.step)"
  echo "[$SECONDS s] $job: suspended after step $kept, resumed and done"
  # Only steps that the ranks computed between the checkpoint and the suspension may be rolled back.
  local report found
  report=$("${RINGMASTER_AUDIT:?the path of ringmaster-audit}" "$logs/$job" --expect-steps=$((kept + $1)) | tee /dev/stderr) || true
  found=$(tail -1 <<<"$report")
  jq -e ".steps == $((kept + $1)) and .lost + .repeated + .disagreeing + .unknown == 0" <<<"$found" >/dev/null || fail "the audit of $job: $found"
  [ "$(jq .rolled_back <<<"$found")" = 0 ] ||
    assert_equal "the states that $job went back to" "adopted step $kept" "$(grep -o 'adopted step [0-9]*' <<<"$report")"
}
