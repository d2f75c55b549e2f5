#!/usr/bin/env bash
# A PyTorch script that trains in place, examples/pytorch-in-place/gpt.py, in an image that has Python and nothing of ours: PyTorch comes
# from a read-only volume, our programs and package by injection. Through a killed rank, a cut node, other numbers of workers, a drained
# node and a suspension steps go on; at the end ringmaster-audit proves that no step was lost or repeated.
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
packages_volume packages "$("$repository/deploy/local/pytorch.sh")"

# start JOB WORKERS SCRIPT [ARGUMENT...]: more steps than are ever made, until `end_after` says how many.
start() {
  local arguments=${*:4}
  as_user apply -f - <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  image: localhost/foreign-python:1
  command: [env, RINGMASTER_AUDIT_LOG=/audit/$1, python3, /code/$3, --steps=1000000${arguments:+, ${arguments// /, }}]
  elasticity: {mode: InPlace}
  checkpoint: {everySteps: 1000000, volume: {persistentVolumeClaim: {claimName: states}}}
  worker:
    replicas: $2
    minReplicas: 1
    resources: {requests: {cpu: 100m}, limits: {cpu: 500m}}  # other tests run beside this one
    env:
    - {name: PYTHONPATH, value: /packages}
    - {name: OMP_NUM_THREADS, value: "1"}
    volumes:
    - {name: code, configMap: {name: code}}
    - {name: packages, persistentVolumeClaim: {claimName: packages, readOnly: true}}
    - {name: audit, persistentVolumeClaim: {claimName: audit}}
    volumeMounts:
    - {name: code, mountPath: /code}
    - {name: packages, mountPath: /packages, readOnly: true}
    - {name: audit, mountPath: /audit}
Y
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
survives() { # what members command...: the command does harm
  local epoch
  epoch=$(status_field "$job" epoch)
  "${@:3}" >/dev/null
  went_on "$1" "$2" "$epoch"
}
last_worker() { worker_pods "$job" | tail -1; }
node_of() { as_user get "$1" -o jsonpath='{.spec.nodeName}'; }
# The pids of the ranks in a Pod, seen from outside.
ranks() {
  local uid pid
  uid=$(as_user get "$1" -o jsonpath='{.metadata.uid}')
  for pid in $(pgrep -x python3); do
    if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep "^RINGMASTER_POD_UID=$uid$" >/dev/null; then echo "$pid"; fi
  done
}
kill_rank() { kill -9 "$(ranks "$(last_worker)" | head -1)"; }
scale() { as_user scale "trainingjob/$job" --replicas="$1" >/dev/null; }
suspend() { as_user patch trainingjob "$job" --type=merge -p "{\"spec\": {\"suspend\": $1}}" >/dev/null; }
no_pods() { [ -z "$(as_user get pods -l "ringmaster.dev/job-name=$job" -o name)" ]; }

# end_after STEPS: the job is suspended, resumes from the checkpoint that this takes, and makes so many more steps.
end_after() {
  suspend true
  wait_condition "$job" Suspended True
  wait_for "all Pods of $job to go" 60 no_pods
  local kept
  kept=$(status_field "$job" checkpoint.step)
  as_user get trainingjob "$job" -o json | jq "{spec: {command: (.spec.command | map(select(startswith(\"--steps=\") | not)) + [\"--steps=$((kept + $1))\"])}}" |
    as_user patch trainingjob "$job" --type=merge --patch-file=/dev/stdin >/dev/null
  suspend false
  wait_condition "$job" Succeeded True 180
  assert_contains "the launcher's log of $job" "entered world .* after step $kept in " "$(as_user logs "$(launcher_pod "$job")")"
  assert_equal "the last step of $job" $((kept + $1)) "$(status_field "$job" progress.step)"
  echo "[$SECONDS s] $job: suspended after step $kept, resumed and done"
  # The steps that the ranks compute between the checkpoint and their end are rolled back, and nothing else.
  local report found
  report=$("$audit" "$logs/$job" --expect-steps=$((kept + $1)) | tee /dev/stderr) || true
  found=$(tail -1 <<<"$report")
  jq -e ".steps == $((kept + $1)) and .lost + .repeated + .disagreeing + .unknown == 0" <<<"$found" >/dev/null || fail "the audit of $job: $found"
  [ "$(jq .rolled_back <<<"$found")" = 0 ] ||
    assert_equal "the states that $job went back to" "adopted step $kept" "$(grep -o 'adopted step [0-9]*' <<<"$report")"
}

job=gpt
start gpt 3 gpt.py --loaders=1
went_on "the beginning" 3
survives "a killed rank" 3 kill_rank

# A node falls silent that holds one worker, but neither the launcher nor the operator.
busy() { { node_of "$(launcher_pod $job)"; echo; kubectl -n ringmaster-system get pods -o jsonpath='{.items[*].spec.nodeName}'; } | grep -w "$1" >/dev/null; }
workers_on() { as_user get pods -l "ringmaster.dev/role=worker,ringmaster.dev/job-name=$job" --field-selector="spec.nodeName=$1" -o name; }
silent=
for node in $(kubectl get nodes -o name | cut -d/ -f2); do
  if ! busy "$node" && [ "$(workers_on "$node" | wc -l)" = 1 ]; then silent=$node; fi
done
[ -n "$silent" ] || fail "no node has one worker alone: $(kubectl get pods -A -o wide)"
lone=$(workers_on "$silent")
survives "a cut node" 3 cluster cut "$silent"
# Not the last recovery: until the node counts as lost and the third worker is there, a busy machine may see others.
told() { as_user get events.events.k8s.io -o jsonpath="{range .items[?(@.reason=='Recovered')]}{.note}{'\n'}{end}" | grep -F "loss of ${lone#pod/} on node $silent (Silence)" >/dev/null; }
wait_for "the event that tells who was lost with the cut node" 30 told
cluster heal "$silent" >/dev/null

scale 2
went_on "three to two workers" 2
scale 3
went_on "two to three workers" 3

survives "a drained node" 3 kubectl drain "$(node_of "$(last_worker)")" --ignore-daemonsets --delete-emptydir-data --force \
  --pod-selector=ringmaster.dev/role=worker --timeout=$((60 * patience))s
clean_up
end_after 20
