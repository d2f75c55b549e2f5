#!/usr/bin/env bash
# Tests the credentials in a job's Pods, the operator's permissions, and that a user cannot gain permissions through a
# TrainingJob.
. "$(dirname "$0")/lib.sh"
new_namespace security

CPU=200m job long 2 "$(generated 100000)" | as_user apply -f -
wait_for "the first step" 60 at_step long 1

# Pods of a job have no API credentials, and worker Pods do not have the private ssh or TLS key.
pods=$(as_user get pods -o json)
assert_equal "Pods with an API token" 0 "$(jq '[.items[] | select(.spec.automountServiceAccountToken != false or any(.spec.volumes[]?; .projected.sources[]?.serviceAccountToken))] | length' <<<"$pods")"
for pod in $(worker_pods long); do
  items=$(as_user exec "$pod" -c worker -- ls /etc/ringmaster/credentials)
  assert_lacks "secrets in $pod" '^(ssh-user-key|tls.key|operator-token)$' "$items"
  assert_contains "secrets in $pod" '^agent-token$' "$items"
  if as_user exec "$pod" -c worker -- ls /var/run/secrets/kubernetes.io >/dev/null 2>&1; then fail "$pod mounts API credentials"; fi
done
assert_contains "the launcher's secrets" '^ssh-user-key$' "$(as_user exec "$(launcher_pod long)" -c launcher -- ls /etc/ringmaster/credentials)"

# There are no secrets in argv, environment or status.
token=$(as_user exec "$(launcher_pod long)" -c launcher -- cat /etc/ringmaster/credentials/agent-token)
assert_lacks "the token in objects" "$token" "$(kubectl -n "$namespace" get pods,services,trainingjobs,events -o yaml)"
assert_lacks "the token in arguments" "$token" "$(as_user exec "$(launcher_pod long)" -c launcher -- sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "')"

# The operator may read only the Secret with its keyring.
operator=system:serviceaccount:ringmaster-system:ringmaster-operator
may() { kubectl auth can-i "$@" --as "$operator" 2>/dev/null || true; }
assert_equal "get of its keyring" yes "$(may get secret/ringmaster-keyring -n ringmaster-system)"
for verb in get list watch update patch delete; do
  assert_equal "$verb on the job's Secrets" no "$(may "$verb" secrets -n "$namespace")"
  [ "$verb" = get ] || assert_equal "$verb on Secrets of its own namespace" no "$(may "$verb" secrets -n ringmaster-system)"
done
assert_lacks "wildcards in the operator's rules" '\*' "$(kubectl get clusterrole ringmaster-operator -o jsonpath='{.rules}')"

# A job's Pods cannot connect to the operator's ports, and bytes from a Pod of the operator's namespace do not crash the operator.
operators() { kubectl -n ringmaster-system get pods -l app.kubernetes.io/component=operator -o jsonpath="{.items[*].$1}"; }
restarts() { operators 'metadata.uid' && operators 'status.containerStatuses[*].restartCount'; }
address=$(operators status.podIP)
for port in 8080 8443; do
  if as_user exec "$(launcher_pod long)" -c launcher -- timeout 3 bash -c "exec 3<>/dev/tcp/${address%% *}/$port" 2>/dev/null; then
    fail "a job's Pod connected to port $port of the operator"
  fi
done
clean_up() { kubectl -n ringmaster-system delete pod/stranger trainingprofile/others trainingprofile/seen --ignore-not-found --wait=false >/dev/null; }
kubectl -n ringmaster-system delete pod stranger --ignore-not-found --wait >/dev/null
kubectl -n ringmaster-system apply -f - >/dev/null <<Y
apiVersion: v1
kind: Pod
metadata: {name: stranger}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: stranger
      image: $WORKER_IMAGE
      command: [sleep, infinity]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
Y
kubectl -n ringmaster-system wait pod/stranger --for=condition=Ready --timeout=$((60 * patience))s >/dev/null
# shellcheck disable=SC2016  # the shell in the Pod expands them
say_to_operator() { # port bytes (printf's format): prints the operator's answer
  kubectl -n ringmaster-system exec stranger -- timeout 10 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf "$3" >&3 && cat <&3' - "${address%% *}" "$1" "$2" 2>/dev/null || true
}
healthy() { [[ $(say_to_operator 8080 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n') = *'200 OK'* ]]; }
# The operator's NetworkPolicy admits a new Pod a moment after it is ready.
wait_for "a Pod of the operator's namespace to reach its health" 20 healthy
before=$(restarts)
chunked='POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
for bytes in "$chunked-2\r\n" "$chunked-1\r\nx\r\n" "${chunked}ffffffffffffffff\r\n" "${chunked}x\r\n" \
  'POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n' 'GET / HTTP/1.1\r\nX: %0100000d\r\n\r\n'; do
  for port in 8080 8443; do say_to_operator $port "$bytes" >/dev/null; done
  healthy || fail "the operator is not healthy after $bytes"
done
assert_equal "operators and their restarts after the attacks" "$before" "$(restarts)"
assert_contains "/metrics without TLS" '^0$' "$(say_to_operator 8443 'GET /metrics HTTP/1.1\r\n\r\n' | wc -c)"
clean_up

# A new job does not use the Secret of a deleted job of the same name: its Secret has another name.
secret_of() { as_user get "$(launcher_pod "$1")" -o jsonpath='{.spec.volumes[?(@.secret)].secret.secretName}'; }
first=$(secret_of long)
as_user delete trainingjob long --cascade=foreground >/dev/null
CPU=200m job long 1 "$(generated 100000)" | as_user apply -f -
wait_for "the second job's first step" 60 at_step long 1
second=$(secret_of long)
[ "$first" != "$second" ] || fail "the second job with this name uses the first one's Secret"
as_user delete trainingjob long --cascade=foreground >/dev/null

# If ADR 9 forbids a field, the job's status contains the field's path and the job gets no Pod.
with_launcher() { # name template
  job "$1" 1 "$(generated 10)" "  launcher: {template: {spec: $2}}" | as_user apply -f -
}
refused() { # name path template
  with_launcher "$1" "$3"
  wait_condition "$1" Stalled True 20
  assert_equal "reason of $1" InvalidSpec "$(condition "$1" Stalled reason)"
  assert_contains "message of $1" "$2" "$(condition "$1" Stalled message)"
  assert_equal "Pods of $1" "" "$(as_user get pods -l "ringmaster.dev/job-name=$1" -o name)"
  wait_for "the event of $1" 10 eval "as_user get events --field-selector involvedObject.name=$1 | grep InvalidSpec >/dev/null"
}
# If a profile could allow the field, the job waits for such a profile.
held_up() { # name path template
  with_launcher "$1" "$3"
  wait_for "the refusal of $1" 20 eval "[ \"\$(condition $1 WorkersReady reason)\" = RefusedByProfile ]"
  assert_contains "message of $1" "$2" "$(condition "$1" WorkersReady message)"
  assert_equal "Pods of $1" "" "$(as_user get pods -l "ringmaster.dev/job-name=$1" -o name)"
}
held_up privileged 'securityContext.privileged' '{containers: [{name: launcher, securityContext: {privileged: true}}]}'
held_up host-path 'hostPath' '{volumes: [{name: root, hostPath: {path: /}}]}'
held_up borrowed 'serviceAccountName' '{serviceAccountName: default}'
refused token 'serviceAccountToken' '{volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}'
refused host-network 'hostNetwork' '{hostNetwork: true}'
held_up root-user 'runAsUser' '{securityContext: {runAsUser: 0}}'
refused no-worker 'launcher' '{containers: [{name: other, image: x}]}'

# The operator checks a template when it creates the Pods, no matter when and by which request the template was written. Pod Security
# is off, so that only Ringmaster protects the node from the attacker.
kubectl label namespace "$namespace" pod-security.kubernetes.io/enforce=privileged --overwrite >/dev/null
evil='{"metadata":null,"spec":{"hostPID":true,"volumes":[{"name":"root","hostPath":{"path":"/"}}],"containers":[{"name":"worker","securityContext":{"privileged":true},"volumeMounts":[{"name":"root","mountPath":"/node"}]}]}}'
marked='{"spec":{"worker":{"template":{"metadata":{"labels":{"a":"b"}}}}}}'
no_pod_reaches_the_node() {
  assert_equal "Pods that reach their node" 0 "$(kubectl -n "$namespace" get pods -o json |
    jq '[.items[] | select(.spec.hostPID or any(.spec.volumes[]; .hostPath) or any(.spec.containers[]; .securityContext.privileged))] | length')"
}
suspended() { # name
  job "$1" 1 "$(generated 100000)" "  suspend: true" | as_user apply -f -
  as_user patch trainingjob "$1" --type=merge -p "$marked" >/dev/null
  wait_condition "$1" Suspended True 20
}
never_runs() { # name
  wait_condition "$1" Stalled True 20
  assert_equal "reason of $1" InvalidSpec "$(condition "$1" Stalled reason)"
  assert_contains "message of $1" 'spec.worker.template.spec.hostPID' "$(condition "$1" Stalled message)"
  no_pod_reaches_the_node
}
for name in merged json-patched applied replaced; do suspended "$name"; done
as_user patch trainingjob merged --type=merge -p "{\"spec\":{\"suspend\":false,\"worker\":{\"template\":$evil}}}" >/dev/null
as_user patch trainingjob json-patched --type=json -p "[{\"op\":\"replace\",\"path\":\"/spec/worker/template\",\"value\":$evil},{\"op\":\"replace\",\"path\":\"/spec/suspend\",\"value\":false}]" >/dev/null
changed() { as_user get trainingjob "$1" -o json | jq ".spec.worker.template = $evil | .spec.suspend = false | del(.status, .metadata.managedFields)"; }
changed applied | jq 'del(.metadata.resourceVersion, .metadata.uid, .metadata.generation, .metadata.creationTimestamp)' |
  as_user apply --server-side --force-conflicts -f - >/dev/null
changed replaced | jq 'del(.metadata.resourceVersion)' | as_user replace -f - >/dev/null
for name in merged json-patched applied replaced; do never_runs "$name"; done
as_user delete trainingjob merged json-patched applied replaced --cascade=foreground >/dev/null

# A running job keeps the template that it started with: a new worker gets the same template, even from a new operator.
CPU=200m job kept 1 "$(generated 100000)" | as_user apply -f -
as_user patch trainingjob kept --type=merge -p "$marked" >/dev/null
wait_for "the first step" 60 at_step kept 1
as_user patch trainingjob kept --type=merge -p "{\"spec\":{\"worker\":{\"template\":$evil}}}" >/dev/null
wait_condition kept ChangePending True 20
assert_contains "the condition" 'spec.worker.template' "$(condition kept ChangePending message)"
wait_for "the event" 10 eval "as_user get events --field-selector involvedObject.name=kept | grep ChangePending >/dev/null"
replaced() { local now; now=$(as_user get "$(worker_pods kept | head -1)" -o jsonpath='{.metadata.uid}' 2>/dev/null) && [ -n "$now" ] && [ "$now" != "$old" ]; }
old=$(as_user get "$(worker_pods kept)" -o jsonpath='{.metadata.uid}')
kubectl -n ringmaster-system rollout restart deployment ringmaster-operator >/dev/null
as_user delete "$(worker_pods kept)" --wait=false >/dev/null
wait_for "another worker" 90 replaced
kubectl -n ringmaster-system rollout status deployment ringmaster-operator --timeout=$((120 * patience))s >/dev/null
no_pod_reaches_the_node
revisions() { as_user get pods -l ringmaster.dev/job-name=kept -o jsonpath='{range .items[*]}{.metadata.labels.ringmaster\.dev/revision}{"\n"}{end}' | sort -u; }
assert_equal "texts of one run" 1 "$(revisions | wc -l)"

# Users cannot change the ControllerRevision with the template. The operator checks the template in a forged ControllerRevision.
pin=$(kubectl -n "$namespace" get controllerrevisions -l ringmaster.dev/job-name=kept -o name)
if kubectl -n "$namespace" patch "$pin" --type=merge -p "{\"data\":{\"spec\":{\"worker\":{\"template\":$evil}}}}" >/dev/null 2>&1; then fail "a user changed the pinned spec of a run"; fi
suspended forged
forged=$(as_user get trainingjob forged -o json | jq "{apiVersion: \"apps/v1\", kind: \"ControllerRevision\", revision: 1, data: {spec: (.spec | .worker.template = $evil)},
  metadata: {name: \"forged-run-\(.metadata.uid[0:8])\", ownerReferences: [{apiVersion, kind, name: .metadata.name, uid: .metadata.uid, controller: true}]}}")
kubectl -n "$namespace" create -f - <<<"$forged" >/dev/null
as_user patch trainingjob forged --type=merge -p '{"spec":{"suspend":false}}' >/dev/null
is_refused() { condition forged WorkersReady message | grep 'spec.worker.template.spec.hostPID' >/dev/null; }
wait_for "the forged text to be refused" 30 is_refused
no_pod_reaches_the_node

# Profiles: the roles view, edit and admin cannot write profiles, not even in the operator's namespace. A profile outside the operator's
# namespace has no effect. A job that names a profile for other namespaces gets the same answer as if the profile did not exist.
# A running job does not change when its spec names another profile.
for role in view edit admin; do
  assert_equal "who has profiles by the role $role" "" "$(kubectl get clusterrole "$role" -o json |
    jq -r '.rules[] | select(any(.resources[]?; startswith("trainingprofiles"))) | .verbs[]')"
done
for role in edit admin; do
  kubectl -n ringmaster-system create rolebinding "attacker-$role" --clusterrole="$role" --user="attacker-$role" >/dev/null
  for verb in create update patch delete; do
    assert_equal "$verb on profiles as $role" no "$(kubectl -n ringmaster-system auth can-i "$verb" trainingprofiles --as="attacker-$role" || true)"
  done
  if kubectl -n ringmaster-system create rolebinding "mine-$role" --role=ringmaster-profiles --user="attacker-$role" --as="attacker-$role" >/dev/null 2>&1; then
    fail "the role $role in the operator's namespace grants the platform team's permissions"
  fi
  kubectl -n ringmaster-system delete rolebinding "attacker-$role" >/dev/null
done
for role in view edit admin; do
  assert_equal "what people may do with local profiles by the role $role" "get list watch" "$(kubectl get clusterrole "$role" -o json |
    jq -r '[.rules[] | select(any(.resources[]?; . == "localtrainingprofiles")) | .verbs[]] | unique | join(" ")')"
done
profile others "{namespaces: [$namespace-others], allows: {hostNetwork: true}, workload: {network: {hostNetwork: true}}}"
kubectl apply -f - >/dev/null <<<"{apiVersion: ringmaster.dev/v1alpha1, kind: TrainingProfile, metadata: {name: mine, namespace: $namespace},
  spec: {namespaces: ['*'], default: true, allows: {hostNetwork: true}, workload: {network: {hostNetwork: true}}}}"
refused_by_profile() { [ "$(condition "$1" WorkersReady reason)" = RefusedByProfile ]; }
for name in mine others nobodys; do
  job "of-$name" 1 "$(generated 10)" "  profile: $name" | as_user apply -f -
  wait_for "profile $name to be refused" 20 refused_by_profile "of-$name"
  assert_equal "Pods under profile $name" "" "$(as_user get pods -l "ringmaster.dev/job-name=of-$name" -o name)"
done
# Users see the profiles that they may use, but not the other namespaces that may use these profiles.
profile seen "{namespaces: [$namespace, $namespace-others], description: of both}"
local_profiles() { as_user get localtrainingprofiles -o json; }
is_seen() { [ "$(local_profiles | jq -r '[.items[].metadata.name | select(. != "gpu")] | join(" ")')" = "$1" ]; }
wait_for "the user to see a profile" 20 is_seen seen
assert_lacks "what the user sees" "$namespace-others" "$(local_profiles)"
if as_user patch localtrainingprofile seen --type=merge -p '{"spec":{"allows":{"root":true}}}' >/dev/null 2>&1; then fail "a user changed a LocalTrainingProfile"; fi
profile seen "{namespaces: [$namespace-others]}"
wait_for "what is not for the user any more to go" 20 is_seen ""
sentence() { condition "of-$1" WorkersReady message | sed "s/$1/NAME/"; }
assert_equal "what is said of a profile that is for others" "$(sentence nobodys)" "$(sentence others)"
as_user patch trainingjob kept --type=merge -p '{"spec":{"profile":"others"}}' >/dev/null
names_the_profile() { condition kept ChangePending message | grep 'spec.profile' >/dev/null; }
wait_for "another profile to be held back" 20 names_the_profile
old=$(as_user get "$(worker_pods kept | head -1)" -o jsonpath='{.metadata.uid}')
as_user delete "$(worker_pods kept | head -1)" --wait=false >/dev/null
wait_for "a worker under the profile of the run" 90 replaced
assert_equal "Pods on the nodes' network" 0 "$(kubectl -n "$namespace" get pods -o json | jq '[.items[] | select(.spec.hostNetwork)] | length')"
clean_up

# Only the operator may write a job's status.
for role in view edit admin; do
  assert_equal "who writes statuses by the role $role" "" "$(kubectl get clusterrole "$role" -o json |
    jq -r '.rules[] | select(any(.resources[]?; . == "trainingjobs/status")) | .verbs[] | select(. != "get")')"
done
