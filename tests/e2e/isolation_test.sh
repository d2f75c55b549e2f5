#!/usr/bin/env bash
# Tests who may connect to a job's Pods, and the privileges that a profile can allow. A Pod of another namespace that
# knows every address and port gets no access. Keys, tokens and TLS prevent access while the job has no NetworkPolicies.
# The policies are tested after a deny-all policy has shown that this cluster enforces policies. The last parts test two
# jobs of two workers each in the network of one node, privileged jobs, and jobs that run as root.
. "$(dirname "$0")/lib.sh"
new_namespace isolation
strangers=isolation-strangers
# Restore the operator even if this test fails, because the other tests need it.
clean_up() {
  install_chart --reset-values
  kubectl -n ringmaster-system delete trainingprofile "$namespace" --ignore-not-found >/dev/null
  kubectl delete namespace "$strangers" --ignore-not-found --wait=false >/dev/null
}

kubectl delete namespace "$strangers" --ignore-not-found --wait >/dev/null
restricted_namespace "$strangers"
kubectl -n "$strangers" apply -f - >/dev/null <<Y
apiVersion: v1
kind: Pod
metadata: {name: stranger}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: stranger
      image: $WORKER_IMAGE
      command: [sleep, infinity]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
Y
kubectl -n "$strangers" wait pod/stranger --for=condition=Ready --timeout=$((60 * patience))s >/dev/null
in_stranger() { kubectl -n "$strangers" exec stranger -- "$@"; }
connects() { in_stranger timeout 3 bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null; }
refuses() { ! connects "$@"; }

# Runs a program of this machine, such as curl or openssl, in the network of the Pod `stranger`, whose image has neither.
stranger_process() {
  local inode pid
  inode=$(in_stranger readlink /proc/self/ns/net)
  for pid in /proc/[0-9]*; do
    if [ "$(readlink "$pid/ns/net" 2>/dev/null)" = "$inode" ]; then basename "$pid" && return; fi
  done
  return 1
}
process=$(stranger_process) || fail "the stranger's network namespace is not on this machine"
as_stranger() { nsenter --target "$process" --net "$@"; }

field_of() { as_user get "$1" -o jsonpath="{.$2}"; }
ssh_port_of() { as_user logs "$1" -c worker | sed -n 's/.*Reported the worker.*sshPort=\([0-9]*\).*/\1/p' | tail -1; }
find_targets() { # job: sets launcher, worker and ssh_port
  launcher=$(field_of "$(launcher_pod "$1")" status.podIP)
  local pods pod
  pods=$(worker_pods "$1")
  pod=${pods%%$'\n'*}
  worker=$(field_of "$pod" status.podIP)
  ssh_port=$(ssh_port_of "$pod")
  if [ -z "$launcher" ] || [ -z "$worker" ] || [ -z "$ssh_port" ]; then fail "the address of $1 is unknown"; fi
}

# Without NetworkPolicies the Pod `stranger` can connect, but gets no access.
install_chart --set jobNetworkPolicies=false
CPU=200m job open 2 "$(generated 1000000)" | as_user apply -f -
wait_for "the first step" 90 at_step open 1
assert_equal "NetworkIsolated without policies" PoliciesOff "$(condition open NetworkIsolated reason)"
assert_equal "policies of the job" "" "$(kubectl -n "$namespace" get networkpolicies -o name)"
find_targets open
for target in "$launcher 8470" "$launcher 8471" "$worker $ssh_port"; do
  # shellcheck disable=SC2086 # address and port
  wait_for "the stranger to connect to $target" 20 connects $target
done
for path in /v1/status /v1/order /metrics; do
  for token in '' 'Authorization: Bearer guessed'; do
    code=$(as_stranger curl -sk --max-time 5 -o /dev/null -w '%{http_code}' -H "$token" "https://$launcher:8471$path" || true)
    [[ $code = 40[134] ]] || fail "expected 401, 403 or 404 for $path of the launcher without a valid token, got $code"
  done
done
code=$(as_stranger curl -s --max-time 5 -o /dev/null -w '%{http_code}' "http://$launcher:8471/v1/status" || true)
assert_equal "the launcher's answer without TLS" 000 "$code"
# If a hello on the agents' channel is valid but has a wrong token, the launcher closes the connection without
# information about the job.
said=$( (echo '{"type":"hello","token":"guessed"}'; sleep 2) | as_stranger timeout 10 openssl s_client -quiet -connect "$launcher:8470" 2>/dev/null || true)
assert_lacks "what the agents' channel told a stranger" 'epoch|worker|cohort' "$said"
as_stranger ssh-keyscan -T 5 -p "$ssh_port" "$worker" >/dev/null 2>&1 || fail "sshd is unreachable, so its authentication cannot be tested"
said=$(in_stranger ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -o ConnectTimeout=5 \
  -p "$ssh_port" "$worker" true 2>&1) && fail "a stranger logged in to $worker"
assert_contains "sshd's answer to a stranger" 'Permission denied' "$said"
step=$(status_field open progress.step)
wait_for "progress under attack" 60 at_step open $((step + 1))

# Check that this cluster enforces NetworkPolicies.
kubectl -n "$namespace" apply -f - >/dev/null <<<'{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny-all}, spec: {podSelector: {}, policyTypes: [Ingress]}}'
for target in "$launcher 8470" "$launcher 8471" "$worker $ssh_port"; do
  # shellcheck disable=SC2086
  wait_for "deny-all to deny $target" 20 refuses $target
done
kubectl -n "$namespace" delete networkpolicy deny-all >/dev/null
wait_for "the stranger to connect again" 20 connects "$worker" "$ssh_port"
as_user delete trainingjob open --cascade=foreground >/dev/null

# With the job's NetworkPolicies, only the job's Pods and the operator can connect.
install_chart --reset-values
CPU=200m job closed 2 "$(generated 1000000)" | as_user apply -f -
wait_for "the first step of an isolated job" 90 at_step closed 1
wait_condition closed NetworkIsolated True 20
find_targets closed
for target in "$launcher 8470" "$launcher 8471" "$worker $ssh_port"; do
  # shellcheck disable=SC2086
  refuses $target || fail "a Pod outside of the job connected to $target of an isolated job"
done
address=$(as_user get service closed-launcher -o jsonpath='{.spec.clusterIP}')
refuses "$address" 8470 || fail "a Pod outside of the job connected through the launcher's Service"
# Completed steps prove that the operator can connect to the launcher, and that workers can connect to each other and to sshd.
as_user scale trainingjob closed --replicas=3 >/dev/null
of_three() { [ "$(status_field closed worldSize)" = 3 ]; }
wait_for "a third worker of an isolated job" 90 of_three
as_user delete trainingjob closed --cascade=foreground >/dev/null
assert_equal "policies after the job" "" "$(kubectl -n "$namespace" get networkpolicies -o name)"

# A job on the nodes' network waits until a profile allows it. Then two jobs with two workers each run on one node.
on_node() { # job steps
  cat <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  image: $WORKER_IMAGE
  command: $(generated "$2")
  network: {hostNetwork: true}
  worker:
    replicas: 2
    resources: {limits: {cpu: 200m}}
    template: {spec: {nodeSelector: {kubernetes.io/hostname: node1}}}
Y
}
on_node denied 10 | as_user apply -f -
is_denied() { condition denied WorkersReady message | grep 'spec.allows.hostNetwork' >/dev/null; }
wait_for "the node's network to be refused" 20 is_denied
kubectl label --overwrite namespace "$namespace" pod-security.kubernetes.io/enforce=privileged >/dev/null
profile "$namespace" "{namespaces: [$namespace], allows: {hostNetwork: true, privileged: true, root: true, capabilities: [IPC_LOCK]}}"
for name in first second; do on_node "$name" 1000000 | sed "s/^spec:/spec:\n  profile: $namespace/" | as_user apply -f -; done
for name in first second; do wait_for "the first step of $name on the node's network" 120 at_step "$name" 1; done
node=$(kubectl get node node1 -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}')
assert_equal "addresses of the four workers" "$node $node $node $node" \
  "$(as_user get pods -l ringmaster.dev/role=worker -o jsonpath='{.items[*].status.podIP}')"
for name in first second; do
  assert_equal "NetworkIsolated of $name" HostNetwork "$(condition "$name" NetworkIsolated reason)"
  assert_equal "ranks of $name" 2 "$(status_field "$name" worldSize)"
  refuses "$(field_of "$(launcher_pod "$name")" status.podIP)" 8470 || fail "a Pod outside of the job connected to the launcher of $name"
done
as_user delete pod first-worker-1 --wait=false >/dev/null
replaced() { [ "$(status_field first workers.members)" = 2 ] && as_user get pod first-worker-2 >/dev/null; }
wait_for "another worker on the same node" 90 replaced
as_user delete trainingjob first second --cascade=foreground >/dev/null

# Jobs with privileges: check a rank's capabilities in the kernel, and that mpirun works as root.
with_privileges() { # job field-of-worker security-context
  cat <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  profile: $namespace
  image: $WORKER_IMAGE
  command: [sh, -c, 'echo "$1 is \$(id -u) with \$(sed -n "s/^CapEff:.//p" /proc/self/status)"']
  worker: {replicas: 2, $2, template: {spec: {securityContext: {$3}}}}
Y
}
with_privileges locking 'ipcLock: true' 'runAsUser: 0' | as_user apply -f -
with_privileges privileged 'privileged: true' 'runAsUser: 0' | as_user apply -f -
with_privileges plain 'privileged: true' '' | as_user apply -f -
for name in locking privileged plain; do wait_condition "$name" Succeeded True 90; done
output_of() { as_user logs "$(launcher_pod "$1")"; }
# The capabilities SETGID, SETUID, IPC_LOCK and SYS_CHROOT are bits 6, 7, 14 and 18.
assert_contains "root with IPC_LOCK" 'locking is 0 with 00000000000440c0' "$(output_of locking)"
assert_contains "privileged root" 'privileged is 0 with 0*1ff' "$(output_of privileged)"
assert_contains "privileged alone" 'plain is 0 with 0*1ff' "$(output_of plain)"
