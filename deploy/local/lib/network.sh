# shellcheck shell=bash
# Makes the network of a cluster: a bridge in the root network namespace, to which one network namespace per node is connected; Pods
# are reached through their node. All addresses are in the cluster's own 10.SLOT.0.0/16 (record.sh); no packet leaves this machine.

short_name() { # link names have at most 15 bytes, so a long cluster name is replaced by its beginning and a checksum
  if [ ${#NAME} -le 7 ]; then echo "$NAME"; else echo "${NAME:0:3}$(sha1sum <<<"$NAME" | cut -c -4)"; fi
}

netns() { echo "$NAME-$1"; } # node
in_node() { # node command...
  # `ip netns exec` would mount a new /sys without the cgroup mounts.
  local node=$1
  shift
  nsenter --net="/run/netns/$(netns "$node")" "$@"
}

cluster_range() { [ -z "$(setting slot)" ] || echo "10.$(setting slot).0.0/16"; } # prints nothing without nodes
host_address() { echo "10.$(setting slot).0.1"; }
node_address() { echo "10.$(setting slot).0.$((10 + $1))"; }
pod_cidr() { echo "10.$(setting slot).$((64 + $1)).0/24"; }
all_pods_cidr() { echo "10.$(setting slot).64.0/18"; }
service_cidr() { echo "10.$(setting slot).128.0/17"; }

make_bridge() {
  local slot bridge
  slot=$(machine_wide take_slot)
  set_setting slot "$slot"
  # Packets to addresses that do not exist on this machine, such as the address of a Service outside a node, must not reach the
  # real network.
  record route unreachable "10.$slot.0.0/16"
  ip route add unreachable "10.$slot.0.0/16"
  bridge=br-$(short_name)
  [ ! -e "/sys/class/net/$bridge" ] || die "the link $bridge exists already and is not ours"
  record link "$bridge"
  ip link add "$bridge" type bridge
  ip addr add "$(host_address)/24" dev "$bridge"
  ip link set "$bridge" up
  allow_forwarding "$bridge"
}

# Allows packets between our nodes even if other software, such as Docker, drops forwarded packets.
allow_forwarding() { # bridge
  local side
  [[ $(iptables -S FORWARD 2>/dev/null) == *'-P FORWARD DROP'* ]] || return 0
  for side in -i -o; do
    record iptables FORWARD "$side" "$1" -j ACCEPT
    iptables -w -I FORWARD "$side" "$1" -j ACCEPT
  done
}

make_node_network() { # index nodes
  local i=$1 nodes=$2 other ns link
  ns=$(netns "node$i") link=v-$(short_name)-$i
  [ ! -e "/run/netns/$ns" ] || die "the network namespace $ns exists already and is not ours"
  record netns "$ns"
  ip netns add "$ns"
  record link "$link"
  ip link add "$link" type veth peer name eth0 netns "$ns"
  ip link set "$link" master "br-$(short_name)" up
  ip -n "$ns" -batch - <<B
link set lo up
addr add $(node_address "$i")/24 dev eth0
link set eth0 up
route add default via $(host_address)
B
  for other in $(seq "$nodes"); do
    [ "$other" = "$i" ] || ip -n "$ns" route add "$(pod_cidr "$other")" via "$(node_address "$other")"
  done
  # The link is up a moment after its peer, but a route through the link can be added at once.
  record route "$(pod_cidr "$i")" via "$(node_address "$i")"
  ip route add "$(pod_cidr "$i")" via "$(node_address "$i")"
  in_node "node$i" sysctl -qw net.ipv4.ip_forward=1
}

remove_network() {
  local value
  while read -r value; do
    # shellcheck disable=SC2086  # a route is several words
    ip route del $value 2>/dev/null || true
  done < <(recorded route | tr '\t' ' ')
  while read -r value; do
    # shellcheck disable=SC2086  # a rule is several words
    iptables -w -D $value 2>/dev/null || true
  done < <(recorded iptables | tr '\t' ' ')
  for value in $(recorded link); do ip link del "$value" 2>/dev/null || true; done
  for value in $(recorded netns); do ip netns del "$value" 2>/dev/null || true; done
}

need_node() { # name
  need_up
  [[ $1 =~ ^node[0-9]+$ && -e /run/netns/$(netns "$1") ]] || die "no node '$1'; there are: $(kubectl get nodes -o name | cut -d/ -f2 | tr '\n' ' ')"
}

# Drops a node's packets without an error on either side; with the link down, senders would get the error "no route".
command_cut() { # node
  need_root
  lock_cluster
  need_node "$1"
  ! in_node "$1" nft list table netdev cut >/dev/null 2>&1 || return 0
  in_node "$1" nft -f - <<N
table netdev cut {
  chain in { type filter hook ingress device eth0 priority 0; policy drop; }
  chain out { type filter hook egress device eth0 priority 0; policy drop; }
}
N
}

command_heal() { # node
  need_root
  lock_cluster
  need_node "$1"
  in_node "$1" nft delete table netdev cut 2>/dev/null || true
}
