#!/usr/bin/env bash
# Tests that one job continues to train after every fault: a Pod is deleted; a rank, an agent, the launcher and the
# operator are killed; the job grows from 2 to 4 workers and shrinks again; a node is drained, a node is cut off. At the
# end, ringmaster-audit checks with the ranks' logs that no sample was lost or used twice, and the model is as good as
# without faults.
. "$(dirname "$0")/lib.sh"
new_namespace elastic

clean_up() {
  for node in $(kubectl get nodes -o name); do
    cluster heal "${node#node/}" >/dev/null 2>&1 || true
    kubectl uncordon "${node#node/}" >/dev/null 2>&1 || true
  done
}
# The ranks' logs are on a volume that all nodes see, so they outlive the Pods.
shared_volume audit
logs=$volume

shared_volume states

# The job has more steps than it can complete during the test; `end_after` ends it.
as_user apply -f - <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: digits}
spec:
  image: $WORKER_IMAGE
  command: [ringmaster-train, --workload=mnist, --data=generated, --global-batch=48, --steps=1000000, --learning-rate=0.01, --seed=7, --log-every=100, --audit-log=/audit/digits]
  checkpoint: {everySteps: 1000000, volume: {persistentVolumeClaim: {claimName: states}}}
  worker:
    replicas: 3
    resources: {requests: {cpu: 150m}, limits: {cpu: 150m}}  # limited, because other tests run at the same time
    template:
      spec:
        containers: [{name: worker, volumeMounts: [{name: audit, mountPath: /audit}]}]
        volumes: [{name: audit, persistentVolumeClaim: {claimName: audit}}]
Y

job=digits
wait_for "a world of 3" 60 members_are 3
wait_for "the first steps" 60 at_step digits 1

survives "a deleted Pod" 3 as_user delete "$(last_worker)" --wait=false

victim=$(last_worker)
before=$(processes ringmaster-trai "$victim")
survives "a killed rank" 3 kill -9 "$before"
[ "$(processes ringmaster-trai "$victim")" != "$before" ] || fail "the killed rank still runs"

victim=$(last_worker)
uid=$(uid_of "$victim")
survives "a killed agent" 3 kill -9 "$(processes ringmaster-agen "$victim")"
# The kubelet may report the Pod's end after the other workers have continued.
victim_ended() { ! as_user get pods -o jsonpath='{.items[?(@.status.phase=="Running")].metadata.uid}' | grep "$uid" >/dev/null; }
wait_for "the end of the Pod of the killed agent" 30 victim_ended

as_user scale trainingjob/digits --replicas=2 >/dev/null
went_on "three to two workers" 2
as_user scale trainingjob/digits --replicas=4 >/dev/null
went_on "two to four workers" 4
as_user scale trainingjob/digits --replicas=2 >/dev/null
went_on "four to two workers" 2
two_workers() { [ "$(worker_pods digits | wc -l)" = 2 ]; }
wait_for "the drained Pods to go" 60 two_workers

ranks() { local pod; for pod in $(worker_pods digits); do processes ringmaster-trai "$pod"; done | sort; }
before=$(ranks)
term=$(status_field digits internal.launcherTerm)
kill -9 "$(processes ringmaster-laun "$(launcher_pod digits)")"
next_term() { [ "$(status_field digits internal.launcherTerm)" -gt "$term" ]; }
wait_for "the next launcher" 30 next_term
went_on "a killed launcher" 2
assert_equal "the ranks across the launcher's death" "$before" "$(ranks)"

kubectl -n ringmaster-system delete pods --all --force --grace-period=0 >/dev/null 2>&1
kubectl -n ringmaster-system rollout status deployment/ringmaster-operator --timeout=$((60 * patience))s >/dev/null
went_on "a killed operator" 2
assert_equal "the ranks across the operator's death" "$before" "$(ranks)"

as_user scale trainingjob/digits --replicas=3 >/dev/null
went_on "two to three workers" 3
drained=$(node_of "$(last_worker)")
survives "a drained node" 3 kubectl drain "$drained" --ignore-daemonsets --delete-emptydir-data --force \
  --pod-selector=ringmaster.dev/role=worker --timeout=$((60 * patience))s
none_there() { ! as_user get pods -l ringmaster.dev/role=worker -o jsonpath='{.items[*].spec.nodeName}' | grep -w "$drained" >/dev/null; }
wait_for "the drained node to be empty" 30 none_there
kubectl uncordon "$drained" >/dev/null

# Cut off a node that runs exactly one worker and neither the launcher nor the operator. If most workers were silent,
# the training would pause with NoQuorum. Launcher and operator are moved until there is such a node. workers_on also
# lists workers that train but that the kubelet has not yet reported as running.
workers_on() { as_user get pods -l ringmaster.dev/role=worker --field-selector="status.phase!=Succeeded,status.phase!=Failed,spec.nodeName=$1" -o name; }
other_nodes() { kubectl get nodes -o name | cut -d/ -f2 | grep -vx "$1"; }
launcher_node=$(node_of "$(launcher_pod digits)")
silent=$(other_nodes "$launcher_node" | head -1)
kubectl cordon "$silent" >/dev/null
if kubectl -n ringmaster-system get pods -o jsonpath='{.items[*].spec.nodeName}' | grep -w "$silent" >/dev/null; then
  kubectl -n ringmaster-system delete pods --all --wait >/dev/null
  kubectl -n ringmaster-system rollout status deployment/ringmaster-operator --timeout=$((60 * patience))s >/dev/null
fi
while [ "$(workers_on "$silent" | wc -l)" -gt 1 ]; do
  survives "a worker that leaves $silent" 3 as_user delete "$(workers_on "$silent" | tail -1)" --wait
done
kubectl uncordon "$silent" >/dev/null
if [ -z "$(workers_on "$silent")" ]; then
  for node in $(other_nodes "$silent"); do kubectl cordon "$node" >/dev/null; done
  survives "a worker that comes to $silent" 3 as_user delete "$(last_worker)" --wait
  for node in $(other_nodes "$silent"); do kubectl uncordon "$node" >/dev/null; done
fi
assert_equal "workers on the node that will fall silent" 1 "$(workers_on "$silent" | wc -l)"
lone=$(workers_on "$silent")
survives "a cut node" 3 cluster cut "$silent"
assert_equal "who was lost with the cut node" "${lone#pod/}" "$(status_field digits lastRecovery.worker)"
cluster heal "$silent" >/dev/null

end_after 100 '"resumed":{"step":STEP,"from":"checkpoint"'
accuracy=$(status_field digits progress.accuracy)
awk -v a="${accuracy:-0}" 'BEGIN {exit !(a >= 0.97)}' || fail "accuracy on held-out generated digits, $accuracy, is below 0.97"
leftovers() { as_user get pods -l ringmaster.dev/role=worker --field-selector=status.phase=Running -o name; }
none_left() { [ -z "$(leftovers)" ]; }
wait_for "worker Pods to end" 60 none_left
