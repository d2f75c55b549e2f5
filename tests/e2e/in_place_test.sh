#!/usr/bin/env bash
# Two PyTorch scripts that train in place, examples/pytorch-in-place, at the same time: a GPT, and Hugging Face's Trainer. Their image
# has Python and nothing of ours: PyTorch and other packages come from a read-only volume, our programs and package by injection.
# Through killed ranks, a cut node, other numbers of workers, a drained node and a suspension steps go on; at the end ringmaster-audit
# proves for both that no step was lost, repeated or rolled back.
. "$(dirname "$0")/lib.sh"
audit=${RINGMASTER_AUDIT:?the path of ringmaster-audit}
new_namespace in-place
clean_up() {
  local node
  for node in $(kubectl get nodes -o name); do
    cluster heal "${node#node/}" >/dev/null 2>&1 || true
    kubectl uncordon "${node#node/}" >/dev/null 2>&1 || true
  done
}

cluster load "$("$(dirname "$0")/python_image.sh")" >/dev/null
examples=$repository/examples/pytorch-in-place
as_user create configmap code --from-file="$examples" >/dev/null
shared_volume audit
logs=$volume
shared_volume states
# PyTorch and other packages, as a platform team would offer them.
python_path=
for folder in "$("$repository/deploy/local/pytorch.sh")" "$("$repository/deploy/local/pypi.sh" accelerate)" \
  "$("$repository/deploy/local/pypi.sh" transformers)"; do
  python_path+=${python_path:+:}/packages/${folder##*/}
  packages=${folder%/*}
done
kubectl apply -f - >/dev/null <<Y
apiVersion: v1
kind: PersistentVolume
metadata: {name: $namespace-packages}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadOnlyMany]
  storageClassName: ""
  hostPath: {path: $packages}
  claimRef: {namespace: $namespace, name: packages}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: packages, namespace: $namespace}
spec: {accessModes: [ReadOnlyMany], storageClassName: "", volumeName: $namespace-packages, resources: {requests: {storage: 10Gi}}}
Y
volumes[$namespace-packages]=$(mktemp -d)

# The launchers stay where the operator is: other nodes may be cut off.
operators_node=$(kubectl -n ringmaster-system get pods --sort-by=.metadata.creationTimestamp -o jsonpath='{.items[-1:].spec.nodeName}')

# start JOB WORKERS SCRIPT [ARGUMENT...]: more steps than are ever made, until `end_after` says how many.
start() {
  local arguments=${*:4}
  as_user apply -f - <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  image: localhost/foreign-python:1
  command: [python3, /code/$3, --steps=1000000${arguments:+, ${arguments// /, }}]
  elasticity: {mode: InPlace}
  checkpoint: {everySteps: 1000000, volume: {persistentVolumeClaim: {claimName: states}}}
  launcher: {template: {spec: {nodeSelector: {kubernetes.io/hostname: $operators_node}}}}
  worker:
    replicas: $2
    minReplicas: 1
    resources: {requests: {cpu: 100m}, limits: {cpu: 500m}}  # other tests run beside this one
    env:
    - {name: PYTHONPATH, value: "$python_path"}
    - {name: OMP_NUM_THREADS, value: "1"}
    - {name: RINGMASTER_AUDIT_LOG, value: /audit/$1}
    volumes:
    - {name: code, configMap: {name: code}}
    - {name: packages, persistentVolumeClaim: {claimName: packages, readOnly: true}}
    - {name: audit, persistentVolumeClaim: {claimName: audit}}
    volumeMounts:
    - {name: code, mountPath: /code}
    - {name: packages, mountPath: /packages, readOnly: true}
    - {name: audit, mountPath: /audit}
    template:
      spec:
        topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {ringmaster.dev/job-name: $1, ringmaster.dev/role: worker}}
Y
}

declare -A workers=([gpt]=3 [huggingface]=2) epoch=()
jobs=(gpt huggingface)
# each COMMAND...: for each job of `jobs` at the same time, whose name it finds in `job`.
each() {
  local job pid running=()
  for job in "${jobs[@]}"; do
    "$@" &
    running+=($!)
  done
  for pid in "${running[@]}"; do wait "$pid"; done
}

members_are() { [ "$(status_field "$job" workers.members)" = "$1" ] && [ "$(status_field "$job" worldSize)" = "$1" ]; }
newer_epoch() { [ "$(status_field "$job" epoch)" -gt "$1" ]; }
# went_on WHAT MEMBERS [EPOCH]: the world has so many members, is newer than EPOCH, and steps are committed in it.
went_on() {
  [ -z "${3:-}" ] || wait_for "$1: a new world" 60 newer_epoch "$3"
  wait_for "$1: a world of $2" 90 members_are "$2"
  local step
  step=$(status_field "$job" progress.step)
  wait_for "$1: steps after it" 60 at_step "$job" $((step + 1))
  echo "[$SECONDS s] $job: $1: went on at step $(status_field "$job" progress.step), last recovery $(status_field "$job" lastRecovery)"
}
note_epochs() { for job in "${jobs[@]}"; do epoch[$job]=$(status_field "$job" epoch); done; }
survived() { went_on "$1" "${workers[$job]}" "${epoch[$job]}"; }
# The pids of the ranks in a Pod, seen from outside.
ranks() {
  local uid pid
  uid=$(as_user get "$1" -o jsonpath='{.metadata.uid}')
  for pid in $(pgrep -x python3); do
    if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep "^RINGMASTER_POD_UID=$uid$" >/dev/null; then echo "$pid"; fi
  done
}
workers_on() { as_user get pods -l "ringmaster.dev/role=worker,ringmaster.dev/job-name=$1" --field-selector="spec.nodeName=$2" -o name; }
# jobs_on NODE: those with a worker there.
jobs_on() {
  jobs=()
  for job in gpt huggingface; do [ -z "$(workers_on $job "$1")" ] || jobs+=("$job"); done
}
scale() { as_user scale "trainingjob/$job" --replicas="$1" >/dev/null; }
scaled() {
  local all=${workers[$job]}
  scale $((all - 1))
  went_on "one worker less" $((all - 1))
  scale "$all"
  went_on "one worker more" "$all"
}
suspend() { as_user patch trainingjob "$job" --type=merge -p "{\"spec\": {\"suspend\": $1}}" >/dev/null; }
no_pods() { [ -z "$(as_user get pods -l "ringmaster.dev/job-name=$job" -o name)" ]; }

# end_after STEPS: the job is suspended, resumes from the checkpoint that this takes, and makes so many more steps.
end_after() {
  suspend true
  wait_condition "$job" Suspended True
  wait_for "all Pods of $job to go" 60 no_pods
  local kept
  kept=$(status_field "$job" checkpoint.step)
  assert_equal "the step at which $job was suspended" "$kept" "$(status_field "$job" progress.step)"
  as_user get trainingjob "$job" -o json | jq "{spec: {command: (.spec.command | map(select(startswith(\"--steps=\") | not)) + [\"--steps=$((kept + $1))\"])}}" |
    as_user patch trainingjob "$job" --type=merge --patch-file=/dev/stdin >/dev/null
  suspend false
  wait_condition "$job" Succeeded True 180
  assert_contains "the launcher's log of $job" "entered world .* after step $kept in " "$(as_user logs "$(launcher_pod "$job")")"
  assert_equal "the last step of $job" $((kept + $1)) "$(status_field "$job" progress.step)"
  echo "[$SECONDS s] $job: suspended after step $kept, resumed and done"
  "$audit" "$logs/$job" --expect-steps=$((kept + $1)) || fail "the audit of $job"
}

start gpt 3 gpt.py --loaders=1
start huggingface 2 huggingface.py
began() { went_on "the beginning" "${workers[$job]}"; }
each began

note_epochs
for job in "${jobs[@]}"; do kill -9 "$(ranks "$(worker_pods "$job" | tail -1)" | head -1)"; done
each survived "a killed rank"

# A node falls silent that holds one worker of the GPT, and if possible one of the other job.
silent=
for node in $(kubectl get nodes -o name | cut -d/ -f2); do
  if [ "$node" = "$operators_node" ] || [ "$(workers_on gpt "$node" | wc -l)" != 1 ]; then continue; fi
  if [ -z "$silent" ] || [ -n "$(workers_on huggingface "$node")" ]; then silent=$node; fi
done
[ -n "$silent" ] || fail "no node has one worker of the GPT alone: $(kubectl get pods -A -o wide)"
lone=$(workers_on gpt "$silent")
jobs_on "$silent"
note_epochs
cluster cut "$silent" >/dev/null
each survived "a cut node"
assert_equal "who was lost with the cut node" "${lone#pod/}" "$(status_field gpt lastRecovery.worker)"
cluster heal "$silent" >/dev/null

jobs=(gpt huggingface)
each scaled

drained=$(as_user get "$(worker_pods gpt | tail -1)" -o jsonpath='{.spec.nodeName}')
jobs_on "$drained"
note_epochs
kubectl drain "$drained" --ignore-daemonsets --delete-emptydir-data --force --pod-selector=ringmaster.dev/role=worker \
  --timeout=$((60 * patience))s >/dev/null
each survived "a drained node"
clean_up

jobs=(gpt huggingface)
each end_after 20
