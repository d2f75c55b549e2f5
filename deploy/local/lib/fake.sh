# shellcheck shell=bash
# Simulated nodes (kwok): they accept Pods, report them as running and end them on deletion, without running anything.

command_fake() { # count
  local count=$1 manifests
  lock_cluster
  [[ $count =~ ^[0-9]{1,4}$ && $count -ge 1 && $count -le 5000 ]] || die "the number of simulated nodes is 1 to 5000, not '$count'"
  if is_up; then "$here/build.sh" kwok; fi
  need_up
  # Create the nodes before kwok starts, so that kwok finds all nodes at once and does not slow down their creation.
  manifests=$(fake_nodes "$count")
  [ -z "$manifests" ] || kubectl create --filename=- >/dev/null <<<"$manifests"
  if ! running kwok; then start_kwok; fi
  wait_until 60 kwok "the simulated nodes" fake_nodes_ready "$count"
  say "$count simulated nodes are Ready"
}

fake_nodes_ready() { # count; sends one list request, because `kubectl wait` sends one request per object
  [ "$(kubectl get nodes --selector=type=ringmaster-fake --no-headers | grep -cw Ready)" -ge "$1" ]
}

# Simulated Pods have loopback addresses, so that connections to them, for example from the operator to a launcher, are refused
# at once.
start_kwok() {
  local extra
  # shellcheck disable=SC2206  # a list of flags, split on purpose
  extra=(${RINGMASTER_KWOK_ARGS:-})
  start kwok "$BIN/kwok" --config "$(dirname "$BIN")/kwok-stages.yaml" --kubeconfig "$STATE/admin.kubeconfig" \
    --cidr=127.64.0.1/10 --manage-all-nodes=false --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-lease-duration-seconds=40 \
    "${extra[@]}"
}

fake_nodes() { # count -> prints the manifests of the nodes that do not exist yet
  local i resources='cpu: 64, memory: 512Gi, pods: 200, nvidia.com/gpu: 8' there
  there=$(kubectl get nodes --selector=type=ringmaster-fake --output=name)
  for i in $(seq -f 'node/fake-%g' "$1" | grep -vxFf <(printf '%s\n' "${there:-none}")); do
    cat <<Y
---
apiVersion: v1
kind: Node
metadata: {name: ${i#node/}, annotations: {kwok.x-k8s.io/node: fake}, labels: {type: ringmaster-fake}}
spec: {taints: [{key: kwok, value: fake, effect: NoSchedule}]}
status: {allocatable: {$resources}, capacity: {$resources}}
Y
  done
}
