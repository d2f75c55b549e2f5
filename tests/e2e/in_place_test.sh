#!/usr/bin/env bash
# A PyTorch script that trains in place, examples/pytorch-in-place/gpt.py, in an image that has Python and nothing of ours: PyTorch comes
# from a read-only volume, our programs and package by injection. Through a killed rank, a cut node, other numbers of workers, a drained
# node and a suspension steps go on; at the end ringmaster-audit proves that no step was lost or repeated.
. "$(dirname "$0")/lib.sh"
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
    resources: {requests: {cpu: 100m}, limits: {cpu: 300m}}  # other tests run beside this one
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

kill_rank() { kill -9 "$(processes python3 "$(last_worker)" | head -1)"; }
scale() { as_user scale "trainingjob/$job" --replicas="$1" >/dev/null; }
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
end_after 20 'entered world .* after step STEP in '
