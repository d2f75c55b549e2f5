#!/usr/bin/env bash
# Tests a PyTorch script of examples/pytorch-in-place that trains in place, in an image with Python but without Ringmaster: PyTorch is
# on a read-only volume, and an init container adds our programs and package. Training continues after a rank is killed, a node is cut
# off or drained, the number of workers changes, or the job is suspended. At the end, ringmaster-audit checks that no step was lost
# or repeated.
# Usage: in_place_test.sh gpt|huggingface
. "$(dirname "$0")/lib.sh"
job=${1:?which script}
new_namespace "in-place-$job"
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
packages_volume pytorch "$("$repository/deploy/local/pytorch.sh")"
claims=(pytorch) arguments=
case $job in
  gpt) arguments=', --loaders=1' ;;
  huggingface)
    for package in accelerate transformers; do
      packages_volume "$package" "$("$repository/deploy/local/pypi.sh" "$package")"
      claims+=("$package")
    done
    ;;
esac
each_claim() { printf '%s\n' "${claims[@]}" | sed "s|.*|$1|"; } # prints the line for each claim; & stands for the claim

# The job has more steps than it can complete during the test; `end_after` ends it.
as_user apply -f - <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $job}
spec:
  image: localhost/foreign-python:1
  command: [env, RINGMASTER_AUDIT_LOG=/audit/$job, python3, /code/$job.py, --steps=1000000$arguments]
  elasticity: {mode: InPlace}
  checkpoint: {everySteps: 1000000, volume: {persistentVolumeClaim: {claimName: states}}}
  worker:
    replicas: 3
    minReplicas: 1
    resources: {requests: {cpu: 100m}, limits: {cpu: 300m}}  # limited, because other tests run at the same time
    env:
    - {name: PYTHONPATH, value: "$(each_claim '/packages/&' | paste -sd :)"}
    - {name: OMP_NUM_THREADS, value: "1"}
    volumes:
    - {name: code, configMap: {name: code}}
$(each_claim '    - {name: &, persistentVolumeClaim: {claimName: &, readOnly: true}}')
    - {name: audit, persistentVolumeClaim: {claimName: audit}}
    volumeMounts:
    - {name: code, mountPath: /code}
$(each_claim '    - {name: &, mountPath: /packages/&, readOnly: true}')
    - {name: audit, mountPath: /audit}
Y

kill_rank() { kill -9 "$(processes python3 "$(last_worker)" | head -1)"; }
scale() { as_user scale "trainingjob/$job" --replicas="$1" >/dev/null; }
went_on "the beginning" 3
survives "a killed rank" 3 kill_rank

# Cut off a node that runs exactly one worker and neither the launcher nor the operator.
busy() { { node_of "$(launcher_pod "$job")"; echo; kubectl -n ringmaster-system get pods -o jsonpath='{.items[*].spec.nodeName}'; } | grep -w "$1" >/dev/null; }
workers_on() { as_user get pods -l "ringmaster.dev/role=worker,ringmaster.dev/job-name=$job" --field-selector="spec.nodeName=$1" -o name; }
silent=
for node in $(kubectl get nodes -o name | cut -d/ -f2); do
  if ! busy "$node" && [ "$(workers_on "$node" | wc -l)" = 1 ]; then silent=$node; fi
done
[ -n "$silent" ] || fail "no node has one worker alone: $(kubectl get pods -A -o wide)"
lone=$(workers_on "$silent")
survives "a cut node" 3 cluster cut "$silent"
# Search all events instead of the last recovery: on a busy machine other recoveries may follow before the third worker has joined.
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
