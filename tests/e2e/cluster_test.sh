#!/usr/bin/env bash
# Tests the local cluster (deploy/local): two clusters at once, NetworkPolicy, a silent node, users' permissions, and
# images. A stopped cluster must leave nothing behind, and must keep a bridge and firewall rules of other software.
# Needs root, and the programs of deploy/local/build.sh. Usage: cluster_test.sh [CHECK...] (default: all, in order).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export RINGMASTER_STATE=${RINGMASTER_STATE:-/var/tmp/ringmaster-cluster}
# The names of the clusters and rules are the same in every checkout: wait for the end of another checkout's test.
mkdir -p "$RINGMASTER_STATE"
[ -n "${ALONE:-}" ] || ALONE=yes exec flock --close "$RINGMASTER_STATE/.test.lock" "${BASH_SOURCE[0]}" "$@"
one=test-one two=test-two stranger=foreign0
work=$(mktemp -d "${TMPDIR:-/tmp}/cluster-test.XXXXXX")
passed=0 listener='' patience=${RINGMASTER_PATIENCE:-1}

cluster() { "$root/deploy/local/cluster.sh" "$@"; }
state() { echo "$RINGMASTER_STATE/$1"; }
kube() { # cluster kubectl-arguments...
  local name=$1
  shift
  kubectl --kubeconfig "$(state "$name")/admin.kubeconfig" "$@"
}

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

check() { # description command...
  local what=$1
  shift
  "$@" || fail "$what"
  passed=$((passed + 1))
  echo "ok $passed - $what"
}

refuses() { ! "$@"; }

says() { # text command...: checks that the output contains the text, whatever the exit code
  local text=$1
  shift
  grep -F "$text" <<<"$("$@" 2>&1 || true)" >/dev/null
}

# Policies and Services take effect in the kernel a moment after they are created, so conditions are polled until a deadline.
eventually() { # command...
  local deadline=$((SECONDS + 20 * patience))
  until "$@"; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.1
  done
}

clean_up() {
  [ -z "$listener" ] || kill "$listener" 2>/dev/null || true
  cluster down --name $one || true
  cluster down --name $two || true
  cluster down --name test-three || true
  ip netns del test-three-node1 2>/dev/null || true
  remove_strangers
  rm -rf "$work"
}

# --- The machine before and after ----------------------------------------------------------------------------------

# Makes a bridge and firewall rules, as other software on the machine might. The test's packets change the
# counters of these rules.
make_strangers() {
  remove_strangers
  ip link add $stranger type bridge
  ip addr add 192.0.2.1/24 dev $stranger
  ip link set $stranger up
  nft -f - <<N
table inet $stranger {
  set seen { type ipv4_addr; size 64; flags dynamic; }
  chain out { type filter hook output priority 0; policy accept; ip daddr 127.0.0.0/8 add @seen { ip daddr } counter; }
  chain forward { type filter hook forward priority 0; policy accept; iifname "$stranger" counter accept; }
}
N
}

remove_strangers() {
  nft delete table inet $stranger 2>/dev/null || true
  ip link del $stranger 2>/dev/null || true
}

strangers_counted() { nft list chain inet $stranger out | grep -E 'counter packets [1-9]' >/dev/null; }

# Prints everything that a cluster could leave behind or change, except what changes by itself: packet counters, the contents of
# sets, links without a carrier, the sockets of running containers, the integration tests' folders.
machine() {
  ip -o link show | awk -F': ' '{print "link", $2}' | sed 's/@.*//'
  ip -4 route show table all | sed -E 's/ (linkdown|dead)\b//g; s/^/route /'
  ip netns list | awk '{print "netns", $1}'
  find /sys/fs/cgroup -type d | sed 's/^/cgroup /'
  nft --stateless --terse list ruleset | sed 's/^/nft /'
  awk '{print "mount", $2}' /proc/mounts
  sysctl -a 2>/dev/null | grep -E '^(net\.ipv4\.(ip_forward|conf\.(all|default)\.)|net\.bridge|kernel\.(panic|keys)|vm\.(overcommit|panic))' | sed 's/^/sysctl /'
  find /run/containerd/s -mindepth 1 2>/dev/null | grep -vxFf <(ss -Hxl | awk '{print $5}') | sed 's/^/file /' || true
  find /var/lib/cni /var/log/containers -mindepth 1 2>/dev/null | sed 's/^/file /' || true
  { pgrep -af "$(state test-)" || true; } | sed 's/^[0-9]* /process /'
  find "$RINGMASTER_STATE" /dev/shm -maxdepth 1 -name '*test-*' ! -name 'ringmaster-test-*' 2>/dev/null | sed 's/^/state /' || true
}

# Checks that nothing new has the test's names, and that rules, routes and settings have not changed. Links, namespaces, cgroups
# and mounts of other software may change. If other clusters run, rules, routes and settings are not compared.
unchanged() {
  local came others
  machine | LC_ALL=C sort >"$work/after"
  came=$(grep -E 'test-|tes[0-9a-f]{4}' "$work/after" | grep -vxFf "$work/before" || true)
  [ -z "$came" ] || { echo "$came" >&2; return 1; }
  others=$(cluster list | awk '{print $1}' | grep -v '^test-' || true)
  if [ -n "$others" ]; then
    echo "# other clusters run here ($(tr '\n' ' ' <<<"$others")): rules, routes and settings are not compared"
  else
    diff <(grep -vE '^(link|netns|cgroup|mount) ' "$work/before") <(grep -vE '^(link|netns|cgroup|mount) ' "$work/after")
  fi
}

strangers_stay() { # checks that the foreign bridge, its address and its rules have not changed
  ip -4 -o addr show dev $stranger | grep '192\.0\.2\.1/24' >/dev/null &&
    diff "$work/rules" <(nft --stateless --terse list table inet $stranger)
}

# --- Pods that run no program: the test uses their network from the node, through their network namespace ------------

pod() { # name node label
  cat <<Y
---
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {app: $3}}
spec:
  nodeName: $2
  automountServiceAccountToken: false
  containers: [{name: pause, image: localhost/pause:1, imagePullPolicy: Never}]
Y
}

address() { kube $one get pod --namespace=net "$1" --output=jsonpath='{.status.podIP}'; }

in_pod() { # pod command...
  local ip file
  ip=$(address "$1")
  shift
  for file in "$(state $one)"/node*/containerd-run/io.containerd.grpc.v1.cri/netns/*; do
    if nsenter --net="$file" ip -4 -o addr show | grep " $ip/" >/dev/null; then
      nsenter --net="$file" "$@"
      return
    fi
  done
  fail "no network namespace has the address '$ip'"
}

connects() { # from address port
  in_pod "$1" timeout 2 bash -c "exec 3<>/dev/tcp/$2/$3" 2>/dev/null
}

policy() { kube $one apply --namespace=net --filename=- >/dev/null; }

# --- Checks, in the order in which they run ---------------------------------------------------------------------------

test_two_clusters_at_once() {
  local first second proxy=http://127.0.0.1:9  # nothing listens there
  # Another process that listens on the default ports must not disturb the cluster.
  python3 -c 'import socket, time
held = [socket.socket() for _ in range(2)]
for s, port in zip(held, (6443, 12379)):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(("0.0.0.0", port)); s.listen()
    except OSError:
        pass
time.sleep(600)' &
  listener=$!
  http_proxy=$proxy https_proxy=$proxy HTTPS_PROXY=$proxy no_proxy=example.com cluster up 3 --name $one >"$work/one.env" &
  first=$!
  cluster up 1 --name $two >"$work/two.env" &
  second=$!
  wait $first || fail "the first cluster did not start"
  wait $second || fail "the second cluster did not start"
  eval "$(cat "$work/one.env")"
  check "kubectl does not use a proxy of the environment" env HTTPS_PROXY=$proxy kubectl get nodes --output=name
  check "the addresses that need no proxy stay" grep -q '^export no_proxy=example.com' "$work/one.env"
  check "three nodes of the first cluster are Ready" [ "$(kube $one get nodes --no-headers | grep -cw Ready)" = 3 ]
  check "one node of the second cluster is Ready" [ "$(kube $two get nodes --no-headers | grep -cw Ready)" = 1 ]
  check "their address ranges differ" [ "$(cat "$(state $one)/setting/slot")" != "$(cat "$(state $two)/setting/slot")" ]
  check "up again says that it runs and succeeds" says 'already running' cluster up 3 --name $one
  check "a port in use is refused by name" says 'port 6443 is taken' cluster up 0 --name test-three --port 6443
}

test_pods_reach_each_other() {
  kube $one create namespace net >/dev/null
  kube $one wait serviceaccount/default --namespace=net --for=create --timeout=$((60 * patience))s >/dev/null
  { pod server node1 server; pod near node1 client; pod far node2 client; pod stranger node3 stranger; } |
    kube $one apply --namespace=net --filename=- >/dev/null
  kube $one wait pod --all --namespace=net --for=condition=Ready --timeout=$((60 * patience))s >/dev/null
  kube $one expose pod server --namespace=net --port=80 --target-port=8000 >/dev/null
  in_pod server timeout 600 python3 -m http.server 8000 >/dev/null 2>&1 &
  server=$(address server)
  service=$(kube $one get service server --namespace=net --output=jsonpath='{.spec.clusterIP}')
  check "a Pod reaches one of its own node" eventually connects near "$server" 8000
  check "a Pod reaches one of another node" eventually connects far "$server" 8000
  check "a Pod reaches a Service" eventually connects far "$service" 80
  check "the logs of a container can be read through the API server" kube $one logs --namespace=net server
  check "a Service's address does not leave the machine from outside a node" refuses ip route get "$service" 2>/dev/null
}

test_network_policy() {
  policy <<<'{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny}, spec: {podSelector: {}, policyTypes: [Ingress]}}'
  check "deny-all denies a Pod of the same node" eventually refuses connects near "$server" 8000
  check "deny-all denies a Pod of another node" eventually refuses connects far "$server" 8000
  check "deny-all denies through a Service" eventually refuses connects far "$service" 80
  policy <<'Y'
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 8000}]}]
Y
  check "allow-from lets a client of the same node in" eventually connects near "$server" 8000
  check "allow-from lets a client of another node in" eventually connects far "$service" 80
  check "allow-from still denies a stranger" refuses connects stranger "$server" 8000
  policy <<<'{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: mute}, spec: {podSelector: {matchLabels: {app: client}}, policyTypes: [Egress]}}'
  check "an egress policy denies at the sender" eventually refuses connects far "$server" 8000
  kube $one delete networkpolicy --all --namespace=net >/dev/null
  check "without policies all may connect again" eventually connects stranger "$server" 8000
}

test_silent_node() {
  check "before the cut node1 answers" eventually connects far "$server" 8000
  cluster cut node1 --name $one
  check "a cut node is silent, it does not refuse" silent "$server"
  check "the other cluster's node1 is not cut" \
    [ "$(kube $two get --raw /api/v1/nodes/node1/proxy/healthz)" = ok ]
  cluster heal node1 --name $one
  check "a healed node answers" eventually connects far "$server" 8000
}

silent() { # address: checks that a connect gets no answer within 2 s: timeout exits with 124; a refused connection exits with 1
  local status=0
  in_pod far timeout 2 bash -c "exec 3<>/dev/tcp/$1/8000" 2>/dev/null || status=$?
  [ $status = 124 ]
}

test_user_rights() {
  local user
  user=$(cluster user alice team-a --name $one)
  # shellcheck disable=SC2317  # called through check
  may() { kubectl --kubeconfig "$user" auth can-i "$@" >/dev/null; }
  check "a user may create Pods in the own namespace" eventually may create pods --namespace=team-a
  check "a user may not create Pods elsewhere" refuses may create pods --namespace=default
  check "a user may not read Secrets of the system" refuses may get secrets --namespace=kube-system
  check "a user may not change roles" refuses may create rolebindings.rbac.authorization.k8s.io --namespace=team-a
}

test_images_are_unpacked_once() {
  local archive=$work/probe.tar pause
  pause=$(sha256sum "$root/deploy/local/lib/pause.c" | cut -c -12) # the cache may contain builds of other versions
  mkdir "$work/oci"
  tar -xf "${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/unpacked/pause-$pause.tar" -C "$work/oci"
  sed -i 's|localhost/pause:1|localhost/probe:1|' "$work/oci/index.json"
  tar -C "$work/oci" -cf "$archive" oci-layout index.json blobs
  cluster load "$archive" --name $one 2>/dev/null
  check "every node has a loaded image" every_node_has localhost/probe:1
  kube $one run probe --image=localhost/probe:1 --image-pull-policy=Never --namespace=net >/dev/null
  check "a loaded image runs" kube $one wait pod/probe --namespace=net --for=condition=Ready --timeout=$((60 * patience))s
  check "a file that is not an image is refused with a sentence" says 'not an OCI archive' cluster load /etc/hostname --name $one
}

# Loads two builds of one image: they have the same lowest layer, but different upper layers.
test_a_rebuilt_image_keeps_the_layers_it_shares() {
  local build unpacked=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/unpacked shared tops=()
  for build in first second; do
    write_rebuilt_image "$build" "$work/rebuilt.tar"
    cluster load "$work/rebuilt.tar" --name $one 2>/dev/null || fail "the $build build of an image could not be loaded"
    shared=$(sed -n '1s/.* //p' "$unpacked/localhost_rebuilt_1/layers")
    tops+=("$(sed -n '2s/.* //p' "$unpacked/localhost_rebuilt_1/layers")")
    check "the layer of the $build build is there" [ "$(cat "${tops[-1]}/build")" = "$build" ]
    check "the lowest layer is there once the $build build is loaded" [ -x "$shared/pause" ]
  done
  check "the layer that the first build alone had is gone" [ ! -e "${tops[0]}/build" ]
}

write_rebuilt_image() { # build archive
  local blobs=$work/oci/blobs/sha256 config manifest layer
  mkdir -p "$work/$1"
  echo "$1" >"$work/$1/build"
  tar -C "$work/$1" -cf "$work/layer" build
  layer=$(sha256sum "$work/layer" | cut -d' ' -f1)
  cp "$work/layer" "$blobs/$layer"
  manifest=$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' "$work/oci/index.json")
  config=$(jq -r '.config.digest | ltrimstr("sha256:")' "$blobs/$manifest")
  jq -c --arg layer "sha256:$layer" '.rootfs.diff_ids += [$layer]' "$blobs/$config" >"$work/config"
  config=$(sha256sum "$work/config" | cut -d' ' -f1)
  cp "$work/config" "$blobs/$config"
  jq -c --arg layer "sha256:$layer" --argjson layer_size "$(stat -c %s "$work/layer")" --arg config "sha256:$config" \
    --argjson config_size "$(stat -c %s "$work/config")" '.config.digest = $config | .config.size = $config_size
    | .layers += [.layers[0] + {digest: $layer, size: $layer_size}]' "$blobs/$manifest" >"$work/manifest"
  manifest=$(sha256sum "$work/manifest" | cut -d' ' -f1)
  cp "$work/manifest" "$blobs/$manifest"
  jq -c --arg manifest "sha256:$manifest" --argjson size "$(stat -c %s "$work/manifest")" '.manifests[0].digest = $manifest
    | .manifests[0].size = $size | .manifests[0].annotations["org.opencontainers.image.ref.name"] = "localhost/rebuilt:1"' \
    "$work/oci/index.json" >"$work/index.json"
  tar -cf "$2" -C "$work/oci" oci-layout blobs -C "$work" index.json
}

every_node_has() { # image
  local node
  for node in node1 node2 node3; do
    [ "$(ctr --address "$(state $one)/$node/containerd.sock" --namespace k8s.io image ls -q "name==$1")" = "$1" ] || return 1
  done
}

test_fake_gpus() {
  cluster gpus node1 8 --name $one >/dev/null
  check "a node advertises GPUs that it was told to" \
    [ "$(kube $one get node node1 --output=jsonpath='{.status.allocatable.nvidia\.com/gpu}')" = 8 ]
}

test_failed_start_undoes_itself() {
  ip netns add test-three-node1
  ! cluster up 1 --name test-three >"$work/three" 2>&1 || fail "a cluster started over a namespace that is not its own"
  check "the reason is said" grep -q 'test-three-node1 exists already' "$work/three"
  check "what was not ours is still there" [ -e /run/netns/test-three-node1 ]
  ip netns del test-three-node1
  rm -rf "${TMPDIR:-/tmp}"/cluster-test-three-log.*
}

test_killed_start_is_cleaned_by_down() {
  "$root/deploy/local/cluster.sh" up 1 --name test-three >/dev/null 2>&1 &
  local starter=$!
  eventually [ -e "$(state test-three)/pid/kubelet-node1" ] || fail "the third cluster did not get to its kubelet"
  kill -9 $starter
  wait $starter 2>/dev/null || true
  check "down cleans up after a start that was killed" cluster down --name test-three
}

test_clean_stop() {
  cluster down --name $one &
  local first=$!
  cluster down --name $two
  wait $first || fail "the first cluster did not stop cleanly"
  kill "$listener"
  wait "$listener" 2>/dev/null || true
  listener=''
  check "a foreign rule counted packets meanwhile" strangers_counted
  check "a foreign bridge and foreign rules are untouched" strangers_stay
  check "stopping leaves the machine as it was" unchanged
  check "stopping twice succeeds" cluster down --name $one
}

"$root/deploy/local/build.sh"
trap clean_up EXIT
cluster down --name $one
cluster down --name $two
make_strangers
nft --stateless --terse list table inet $stranger >"$work/rules"
machine | LC_ALL=C sort >"$work/before"
checks=("$@")
[ $# -gt 0 ] || mapfile -t checks < <(sed -n 's/^test_\([a-z_]*\)() {$/\1/p' "${BASH_SOURCE[0]}")
for name in "${checks[@]}"; do
  echo "# ${name//_/ } ($SECONDS s)"
  "test_$name"
done
echo "all $passed checks passed in $SECONDS s"
