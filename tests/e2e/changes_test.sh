#!/usr/bin/env bash
# Tests that training continues when a worker Pod is deleted, replicas change, or the operator is killed or down, and that a deleted
# job leaves no objects.
. "$(dirname "$0")/lib.sh"
new_namespace changes

world_is() { [ "$(status_field "$1" worldSize)" = "$2" ] && condition_is "$1" Running True; }

CPU=200m job long 2 "$(generated 1000000)" | as_user apply -f -
wait_for "a world of 2" 60 world_is long 2
wait_for "the first step" 30 at_step long 1

# kubectl trainingjob works with only the permissions of a namespace's editor; kubectl finds the plugin in
# PATH.
PATH=${RINGMASTER_CLI:-$repository/build/dev/cli}:$PATH
plugin() { kubectl trainingjob "$@" --kubeconfig "$user" --namespace "$namespace"; }
screen=$(plugin status long)
assert_contains "status" '^long in namespace changes trains$' "$screen"
assert_contains "status" '^long-worker-1 +node[0-9] +Running +1 +0 ' "$screen"
assert_contains "explain" '^image +job +' "$(plugin explain long)"
assert_contains "explain" 'the spec of its Pods until' "$(plugin explain long)"
assert_contains "profiles" '^gpu: ' "$(plugin profiles)"
assert_contains "doctor" '^OK +permissions ' "$(plugin doctor)"
assert_contains "completion" '^long$' "$(KUBECONFIG=$user kubectl __complete trainingjob status -n "$namespace" lo 2>/dev/null)"
followed=$(mktemp)
plugin logs long --follow >"$followed" &
follower=$!
ranks_started() { [ "$(grep -c 'agent Started a rank' "$followed")" -ge "$1" ]; }
wait_for "the logs of the first two workers" 30 ranks_started 2
epoch=$(status_field long epoch)

victim=$(worker_pods long | tail -1)
uid=$(as_user get "$victim" -o jsonpath='{.metadata.uid}')
as_user delete "$victim" --wait=false >/dev/null
newer_epoch() { [ "$(status_field long epoch)" != "$epoch" ] && world_is long "$1"; }
wait_for "the replacement in a new epoch" 60 newer_epoch 2
# The kubelet may report the Pod's end after the other workers have continued.
victim_ended() { ! as_user get pods -o jsonpath='{.items[?(@.status.phase=="Running")].metadata.uid}' | grep "$uid" >/dev/null; }
wait_for "the end of the deleted Pod" 30 victim_ended
wait_for "the log of the replacement" 30 ranks_started 3
assert_contains "rank 0's steps" '^\[rank 0\] ."step":' "$(cat "$followed")"
kill "$follower"

as_user scale trainingjob/long --replicas=3 >/dev/null
wait_for "a world of 3" 60 world_is long 3
as_user scale trainingjob/long --replicas=1 >/dev/null
wait_for "a world of 1" 60 world_is long 1
one_worker() { [ "$(worker_pods long | wc -l)" = 1 ]; }
wait_for "two worker Pods to go" 30 one_worker

# Kill the operator with SIGKILL: the running job must not change.
before=$(as_user get pods -o jsonpath='{.items[*].metadata.uid}')$(status_field long epoch)
kubectl -n ringmaster-system delete pods --all --force --grace-period=0 >/dev/null 2>&1
kubectl -n ringmaster-system rollout status deployment/ringmaster-operator --timeout=$((60 * patience))s >/dev/null
step=$(status_field long progress.step)
wait_for "progress under the new operator" 60 at_step long $((step + 1))
assert_equal "Pods and epoch across the operator's death" "$before" "$(as_user get pods -o jsonpath='{.items[*].metadata.uid}')$(status_field long epoch)"

# While the operator is down, one job ends and another is submitted.
job ends 1 "$(generated 400)" | as_user apply -f -
wait_for "the first step" 60 at_step ends 1
kubectl -n ringmaster-system scale deployment/ringmaster-operator --replicas=0 >/dev/null
kubectl -n ringmaster-system wait --for=delete pod --all --timeout=$((60 * patience))s >/dev/null
job waits 1 "$(generated 20)" | as_user apply -f -
plugin logs ends --follow --rank=0 --tail=5 >"$followed" &
follower=$!
launcher_ended() { [ "$(as_user get "$(launcher_pod ends)" -o jsonpath='{.status.phase}')" = Succeeded ]; }
wait_for "training to end" 120 launcher_ended
kubectl -n ringmaster-system scale deployment/ringmaster-operator --replicas=1 >/dev/null
wait_condition ends Succeeded True 60
wait "$follower" || fail "kubectl trainingjob logs --follow of a job that ends: exit code $?"
assert_contains "the last lines of rank 0" '^\[rank 0\] ' "$(tail -n 3 "$followed")"
assert_contains "status" '^ends in namespace changes has succeeded, Completed' "$(plugin status ends)"
rm "$followed"
wait_condition waits Succeeded True 60

# A deleted job leaves no objects.
as_user delete trainingjobs --all --cascade=foreground --timeout=$((60 * patience))s >/dev/null
leftovers() { kubectl -n "$namespace" get pods,services,secrets,configmaps,networkpolicies,controllerrevisions -l ringmaster.dev/managed-by=ringmaster -o name; }
nothing_left() { [ -z "$(leftovers)" ] && [ -z "$(kubectl -n "$namespace" get secrets -o name)" ]; }
wait_for "everything of the deleted jobs to go" 30 nothing_left
