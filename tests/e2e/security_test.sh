#!/usr/bin/env bash
# What a job's Pods hold, what the operator may read, and what a user cannot gain through a TrainingJob.
. "$(dirname "$0")/lib.sh"
new_namespace security

job long 2 "$(generated 100000)" | as_user apply -f -
wait_for "the first step" 60 at_step long 1

# No Pod of a job holds API credentials, no worker Pod the private ssh or TLS key.
pods=$(as_user get pods -o json)
assert_equal "Pods with an API token" 0 "$(jq '[.items[] | select(.spec.automountServiceAccountToken != false or any(.spec.volumes[]?; .projected.sources[]?.serviceAccountToken))] | length' <<<"$pods")"
for pod in $(worker_pods long); do
  items=$(as_user exec "$pod" -c worker -- ls /etc/ringmaster/credentials)
  assert_lacks "secrets in $pod" '^(ssh-user-key|tls.key|operator-token)$' "$items"
  assert_contains "secrets in $pod" '^agent-token$' "$items"
  if as_user exec "$pod" -c worker -- ls /var/run/secrets/kubernetes.io >/dev/null 2>&1; then fail "$pod mounts API credentials"; fi
done
assert_contains "the launcher's secrets" '^ssh-user-key$' "$(as_user exec "$(launcher_pod long)" -c launcher -- ls /etc/ringmaster/credentials)"

# No secret in argv, environment or status.
token=$(as_user exec "$(launcher_pod long)" -c launcher -- cat /etc/ringmaster/credentials/agent-token)
assert_lacks "the token in objects" "$token" "$(kubectl -n "$namespace" get pods,services,trainingjobs,events -o yaml)"
assert_lacks "the token in arguments" "$token" "$(as_user exec "$(launcher_pod long)" -c launcher -- sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "')"

# The operator may read its keyring and no other Secret.
operator=system:serviceaccount:ringmaster-system:ringmaster-operator
may() { kubectl auth can-i "$@" --as "$operator" 2>/dev/null || true; }
assert_equal "get of its keyring" yes "$(may get secret/ringmaster-keyring -n ringmaster-system)"
for verb in get list watch update patch delete; do
  assert_equal "$verb on the job's Secrets" no "$(may "$verb" secrets -n "$namespace")"
  [ "$verb" = get ] || assert_equal "$verb on Secrets of its own namespace" no "$(may "$verb" secrets -n ringmaster-system)"
done
assert_lacks "wildcards in the operator's rules" '\*' "$(kubectl get clusterrole ringmaster-operator -o jsonpath='{.rules}')"

# A predecessor's Secret is not used: a job of the same name has a Secret of another name.
secret_of() { as_user get "$(launcher_pod "$1")" -o jsonpath='{.spec.volumes[?(@.secret)].secret.secretName}'; }
first=$(secret_of long)
as_user delete trainingjob long --cascade=foreground >/dev/null
job long 1 "$(generated 100000)" | as_user apply -f -
wait_for "the second job's first step" 60 at_step long 1
second=$(secret_of long)
[ "$first" != "$second" ] || fail "the second job of the name uses the first one's Secret"
as_user delete trainingjob long --cascade=foreground >/dev/null

# What D9 refuses: named by its path, no Pod.
refused() { # name path template
  job "$1" 1 "$(generated 10)" "  launcher: {template: {spec: $3}}" | as_user apply -f -
  wait_condition "$1" Failed True 20
  assert_equal "reason of $1" InvalidSpec "$(condition "$1" Failed reason)"
  assert_contains "message of $1" "$2" "$(condition "$1" Failed message)"
  assert_equal "Pods of $1" "" "$(as_user get pods -l "ringmaster.dev/job-name=$1" -o name)"
  wait_for "the event of $1" 10 eval "as_user get events --field-selector involvedObject.name=$1 | grep InvalidSpec >/dev/null"
}
refused privileged 'securityContext.privileged' '{containers: [{name: launcher, securityContext: {privileged: true}}]}'
refused host-path 'hostPath' '{volumes: [{name: root, hostPath: {path: /}}]}'
refused borrowed 'serviceAccountName' '{serviceAccountName: default}'
refused token 'serviceAccountToken' '{volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}'
refused host-network 'hostNetwork' '{hostNetwork: true}'
refused root-user 'runAsUser' '{securityContext: {runAsUser: 0}}'
refused no-worker 'launcher' '{containers: [{name: other, image: x}]}'
