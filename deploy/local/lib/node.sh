# shellcheck shell=bash
# Starts and stops the nodes of a cluster. A node is containerd, kubelet, kube-proxy and the NetworkPolicy enforcer in a network
# namespace; their files are under $STATE/nodeN.

need_node_commands() {
  need_commands containerd ctr runc ip nsenter unshare findmnt nft conntrack iptables jq gcc tar
  need_cgroup
  [ -x /usr/lib/cni/ptp ] || die "no CNI plugins in /usr/lib/cni; run deploy/local/prerequisites.sh cluster"
}

NODE_JOBS=()  # pids of the shell processes that prepare the nodes

up_with_nodes() { # nodes
  local nodes=$1 i
  pause_image
  make_bridge
  machine_wide take_kernel_settings
  start_control_plane "$(host_address)" "$(service_cidr)" "10.$(setting slot).128.1"
  identity kube-proxy /CN=system:kube-proxy
  identity netpol /CN=ringmaster:netpol
  # While the API server starts, prepare all nodes in parallel; the preparation does not need the API server.
  for i in $(seq "$nodes"); do
    prepare_node "$i" "$nodes" &
    NODE_JOBS+=($!)
  done
  wait_for_apiserver
  start_controllers
  for i in "${!NODE_JOBS[@]}"; do
    wait "${NODE_JOBS[i]}" || die "node$((i + 1)) could not be prepared"
  done
  for i in $(seq "$nodes"); do start_node_programs "$i"; done
  kubectl apply --filename="$here/lib/rbac.yaml" >/dev/null
  for i in $(seq "$nodes"); do start_in_node "$i" netpol "$BIN/netpol" --kubeconfig="$STATE/netpol.kubeconfig" --node="node$i"; done
  start_dns
  for i in $(seq "$nodes"); do
    wait_until 60 "kubelet-node$i" "node$i to register" kubectl get node "node$i"
  done
  kubectl wait --for=condition=Ready node --all --timeout=$((60 * ${RINGMASTER_PATIENCE:-1}))s >/dev/null ||
    { why kubelet-node1; die "not all nodes became Ready within 60 s"; }
  for i in $(seq "$nodes"); do
    wait_until 30 "netpol-node$i" "the first policy table of node$i" in_node "node$i" nft list table inet netpol
  done
}

# Sets the sysctls that nodes need (ip_forward) and those that every kubelet sets when it starts, so that `down` restores them.
take_kernel_settings() { # call this function through machine_wide
  take_setting net.ipv4.ip_forward 1
  take_setting vm.overcommit_memory 1
  take_setting vm.panic_on_oom 0
  take_setting kernel.panic 10
  take_setting kernel.panic_on_oops 1
  take_setting kernel.keys.root_maxkeys 1000000
  take_setting kernel.keys.root_maxbytes 25000000
}

prepare_node() { # index nodes
  local i=$1 node=node$1 directory=$STATE/node$1
  mkdir -p "$directory/cni" "$directory/var-lib" "$directory/kubelet"
  # Make the folder a shared mount, so that containerd sees the volumes that the kubelet mounts in its own mount namespace.
  mount --bind "$directory/kubelet" "$directory/kubelet"
  mount --make-shared "$directory/kubelet"
  make_node_network "$i" "$2"
  make_cgroup "$NAME-$node"
  write_node_files "$i"
  # containerd also looks for its shim in PATH.
  start_in_node "$i" containerd env PATH="${RINGMASTER_CONTAINERD:+$RINGMASTER_CONTAINERD:}$PATH" containerd --config "$directory/containerd.toml"
  # NodeRestriction and the kubelet's serving certificate require a separate identity for each node.
  identity "$node" "/O=system:nodes/CN=system:node:$node" "IP:$(node_address "$i"),DNS:$node"
  wait_until 20 "containerd-$node" "containerd on $node" ctr --address "$directory/containerd.sock" version
  give_image "$node" "$CACHE/unpacked/$(cached_name localhost/pause:1)"
}

start_in_node() { # index program command...
  local i=$1 program=$2
  shift 2
  start "$program-node$i" nsenter --net="/run/netns/$(netns "node$i")" "$@"
}

# The kubelet's socket for device plugins is always in /var/lib/kubelet, where two kubelets would replace each other's socket.
# Therefore each kubelet has a separate /var/lib.
start_node_programs() { # index
  local node=node$1 directory=$STATE/node$1
  # shellcheck disable=SC2016 # the inner shell expands them
  start_in_node "$1" kubelet unshare --mount --propagation unchanged sh -c \
    'mount --make-private "$(findmnt --noheadings --output TARGET --target /var/lib)" && mount --bind "$0" /var/lib && exec "$@"' \
    "$directory/var-lib" \
    "$BIN/kubelet" --config="$directory/kubelet.yaml" --kubeconfig="$STATE/$node.kubeconfig" \
    --hostname-override="$node" --node-ip="$(node_address "$1")" --root-dir="$directory/kubelet" --cert-dir="$directory/kubelet-pki"
  start_in_node "$1" kube-proxy "$BIN/kube-proxy" --kubeconfig="$STATE/kube-proxy.kubeconfig" --proxy-mode=nftables \
    --cluster-cidr="$(all_pods_cidr)" --hostname-override="$node" --conntrack-max-per-core=0
}

write_node_files() { # index
  local i=$1 node=node$1 directory=$STATE/node$1
  # With ptp instead of a bridge, packets between two Pods of one node are routed, too, so that NetworkPolicies apply to them.
  cat >"$directory/cni/10-pods.conflist" <<C
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "$directory/ipam",
    "ranges": [[{"subnet": "$(pod_cidr "$i")"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
C
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE the score of the pause container cannot be lowered.
  # netns_mounts_under_state_dir: the Pods' network namespaces are in the state folder instead of the machine's /run/netns.
  cat >"$directory/containerd.toml" <<C
version = 2
root = "$directory/containerd"
state = "$directory/containerd-run"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "$directory/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$directory/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$directory/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "$directory/runc"
C
  : >"$directory/resolv.conf"
  cat >"$directory/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $STATE/pki/ca.crt}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$directory/containerd.sock
tlsCertFile: $STATE/pki/$node.crt
tlsPrivateKeyFile: $STATE/pki/$node.key
address: $(node_address "$i")
healthzPort: 0
clusterDomain: cluster.local
clusterDNS: [$(host_address)]
resolvConf: $directory/resolv.conf
cgroupDriver: cgroupfs
cgroupRoot: /$NAME-$node
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
nodeStatusUpdateFrequency: 5s
podLogsDir: $directory/pod-logs
volumePluginDir: $directory/volume-plugins
evictionHard: {imagefs.available: 1%, nodefs.available: 1%, memory.available: 100Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
C
}

# --- Taking nodes away -------------------------------------------------------------------------------------------

stop_nodes() {
  need_root
  kill_shims
  kill_cgroups
  remove_traces
  unmount_everything
  remove_network
  remove_cgroups
}

# Kills the shims that were started for one of our sockets: they keep containers running after containerd has ended.
kill_shims() {
  local process line
  for process in /proc/[0-9]*; do
    # A process may end while this loop reads it.
    line=$({ tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null) || continue
    if [[ $line == *containerd-shim* && $line == *" -address $STATE/node"* ]]; then kill -9 "${process#/proc/}" 2>/dev/null || true; fi
  done
}

# Removes files that the programs of a node leave at fixed paths outside the state directory: shim sockets, CNI results, and links to
# container logs.
remove_traces() {
  local id file
  for file in "$STATE"/node*/containerd-run/io.containerd.runtime.v2.task/k8s.io/*/; do
    id=$(basename "$file")
    rm -f "/var/lib/cni/results/pods-$id-"* "/var/lib/cni/results/cni-loopback-$id-"*
    if [ -e "$file/address" ]; then
      file=$(cat "$file/address")
      rm -f "${file#unix://}"
    fi
  done
  for file in /var/log/containers/*.log; do
    if [ -L "$file" ] && [[ $(readlink "$file") == "$STATE"/* ]]; then rm -f "$file"; fi
  done
  rmdir /var/log/containers /var/lib/cni/results 2>/dev/null || true
}

unmount_everything() {
  local mount
  awk -v s="$STATE/" 'index($2, s) == 1 {print $2}' /proc/mounts | tac | while read -r mount; do
    umount "$mount" 2>/dev/null || umount --lazy "$mount" || true
  done
}
