# shellcheck shell=bash
# The commands of cluster.sh. Each command takes the cluster's lock, checks its arguments and then runs its steps in order.

find_programs() { # group...
  "$here/build.sh" "$@"
  BIN=$("$here/build.sh" --print)/bin
  forget_proxies
}

is_up() { [ -e "$STATE/setting/up" ]; }

need_up() {
  is_up || die "not running; start it with: cluster.sh up --name $NAME"
  BIN=$(setting bin)
  forget_proxies
}

command_up() { # nodes
  local nodes=$1
  [[ $nodes =~ ^[0-9]{1,2}$ && $nodes -le 60 ]] || die "the number of nodes is 0 to 60, not '$nodes'"
  [[ $nodes = 0 || $CONTROLLERS = yes ]] || die "--no-controllers requires 0 nodes, because nodes need the controllers"
  need_commands openssl curl ss flock
  if [ "$nodes" != 0 ]; then need_root && need_node_commands; fi
  lock_cluster
  if is_up; then
    say "already running with $(setting nodes) nodes"
    print_env
    return
  fi
  find_programs kubernetes etcd
  # If an earlier `up` failed or was killed, undo everything that its record lists.
  stop_cluster
  mkdir -p "$STATE"/{log,pid,setting}
  trap clean_up_after_failure EXIT
  set_setting nodes "$nodes"
  set_setting bin "$BIN"
  if [ "$nodes" = 0 ]; then up_control_plane_only; else up_with_nodes "$nodes"; fi
  date +%s >"$STATE/setting/up"
  trap - EXIT
  print_env
}

# Called when `up` fails or is interrupted. Keeps the logs in another folder and undoes everything else.
clean_up_after_failure() {
  local kept
  trap '' PIPE INT TERM HUP
  kept=$(mktemp -d "${TMPDIR:-/tmp}/cluster-$NAME-log.XXXXXX")
  cp -r "$STATE/log/." "$kept/" 2>/dev/null || true
  say "failed to start; cleaning up. Logs: $kept" || true
  # Wait for the nodes that are being prepared; otherwise they would start programs after stop_cluster.
  [ ${#NODE_JOBS[@]} -eq 0 ] || wait "${NODE_JOBS[@]}" || true
  stop_cluster
  exit 1
}

up_control_plane_only() {
  start_control_plane 127.0.0.1 10.96.0.0/16 10.96.0.1
  wait_for_apiserver
  if [ "$CONTROLLERS" = yes ]; then start_controllers; fi
  wait_until 20 apiserver "the default namespace" kubectl get namespace default
}

command_down() {
  lock_cluster
  stop_cluster
  rm -f "$BASE/.$NAME.lock"
}

print_env() {
  local direct=${no_proxy:-${NO_PROXY:-}} address
  for address in localhost 127.0.0.1 $(cluster_range); do
    [[ ,$direct, = *,$address,* ]] || direct+=${direct:+,}$address
  done
  # shellcheck disable=SC2016  # the reader's shell expands $PATH
  printf 'export KUBECONFIG=%s\nexport PATH=%s:$PATH\nexport no_proxy=%q NO_PROXY=%q\n' \
    "$STATE/admin.kubeconfig" "$(setting bin)" "$direct" "$direct"
}

command_env() {
  is_up || die "not running"
  print_env
}

command_list() {
  local name
  for name in "$BASE"/*/setting/up; do
    [ -e "$name" ] || continue
    name=${name%/setting/up}
    printf '%-20s %3s nodes  %s\n' "${name##*/}" "$(cat "$name/setting/nodes")" "$(cat "$name/setting/server")"
  done
}

# Writes the hosts.toml that containerd reads at each pull.
command_registry() { # host:port
  local node folder
  lock_cluster
  need_up
  [[ $1 =~ ^[A-Za-z0-9.-]+:[0-9]+$ ]] || die "a registry is HOST:PORT, not '$1'"
  for node in $(node_names); do
    folder=$STATE/$node/registries/$1
    mkdir -p "$folder"
    printf '[host."http://%s"]\n' "$1" >"$folder/hosts.toml"
  done
}

command_address() {
  need_up
  host_address
}

# Prints the path of the kubeconfig of a user who has the built-in ClusterRole `edit` in the namespace.
command_user() { # name namespace
  lock_cluster
  need_up
  [[ $1 =~ ^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$ ]] || die "a user's name is lower-case letters, digits, dots and dashes, not '$1'"
  [ -e "$STATE/pki/user-$1.crt" ] || certificate "user-$1" "/CN=$1"
  kubeconfig "user-$1" "user-$1" "$2"
  kubectl get namespace "$2" >/dev/null 2>&1 || kubectl create namespace "$2" >/dev/null
  kubectl create rolebinding "$1-edits" --namespace="$2" --clusterrole=edit --user="$1" --dry-run=client --output=yaml |
    kubectl apply --filename=- >/dev/null
  echo "$STATE/user-$1.kubeconfig"
}

command_gpus() { # node count
  need_up
  kubectl patch node "$1" --subresource=status --type=merge \
    --patch "{\"status\":{\"capacity\":{\"nvidia.com/gpu\":\"$2\"},\"allocatable\":{\"nvidia.com/gpu\":\"$2\"}}}"
}
