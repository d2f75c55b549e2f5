# shellcheck shell=bash
# Starts etcd, kube-apiserver and, without --no-controllers, the controller manager, the scheduler and DNS, as processes of the
# root network namespace. They listen on one address only: 127.0.0.1 without nodes, otherwise the address of the cluster's bridge.

# Extra kube-apiserver flags for tests that need them, separated by blanks.
APISERVER_ARGS=${RINGMASTER_APISERVER_ARGS:-}

start_etcd() {
  local port data=$STATE/etcd
  port=$(machine_wide take_port 12379)
  set_setting etcd "http://127.0.0.1:$port"
  # `down` deletes the data, so etcd does not fsync, and the data is in memory if 1 GiB is free: a busy disk then cannot
  # stop the API server. The peer port is 0 because a single member has no peers.
  if [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -ge 1048576 ] 2>/dev/null; then
    data=/dev/shm/ringmaster-etcd-$NAME-$$
    record directory "$data"
  fi
  start etcd "$BIN/etcd" --data-dir "$data" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
    --listen-peer-urls http://127.0.0.1:0
}

start_apiserver() {
  local pki=$STATE/pki address=$1 port=$2 services=$3 extra=()
  if [ "$address" = 127.0.0.1 ]; then
    # The API server refuses a loopback address as the endpoint of the Service `kubernetes`. Without nodes, this Service is not
    # used.
    extra=(--endpoint-reconciler-type=none --advertise-address=192.0.2.1)
  else
    extra=(--advertise-address="$address")
  fi
  # shellcheck disable=SC2206  # a list of flags, split on purpose
  extra+=($APISERVER_ARGS)
  start apiserver "$BIN/kube-apiserver" --etcd-servers="$(setting etcd)" --bind-address="$address" --secure-port="$port" \
    --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range="$services" \
    --authorization-mode=Node,RBAC --allow-privileged=true \
    --enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement "${extra[@]}"
}

apiserver_ready() { curl -sf -m 2 --cacert "$STATE/pki/ca.crt" "$(setting server)/readyz"; }

start_controllers() {
  local pki=$STATE/pki
  start controller-manager "$BIN/kube-controller-manager" --kubeconfig="$STATE/controller-manager.kubeconfig" --secure-port=0 \
    --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" --use-service-account-credentials \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --leader-elect=false --kube-api-qps=500 --kube-api-burst=500
  start scheduler "$BIN/kube-scheduler" --kubeconfig="$STATE/scheduler.kubeconfig" --secure-port=0 \
    --leader-elect=false --kube-api-qps=500 --kube-api-burst=500
}

# Makes the certificates (0.1 s), then starts etcd and the API server together: the API server waits until etcd is ready.
start_control_plane() { # address services-cidr first-service-address
  local address=$1 services=$2 port
  port=$(machine_wide take_port "${PORT:-6443}")
  [ -z "$PORT" ] || [ "$port" = "$PORT" ] ||
    die "port $PORT is taken: $(ss -Htlnp "sport = :$PORT" | head -n 1 | tr -s ' '); choose another --port, or none for a free one"
  set_setting server "https://$address:$port"
  start_etcd
  pki_begin
  certificate apiserver /CN=kube-apiserver "IP:$address,IP:127.0.0.1,IP:$3,DNS:kubernetes.default.svc,DNS:localhost"
  certificate kubelet-client /CN=apiserver-kubelet-client
  start_apiserver "$address" "$port" "$services"
  identity admin /O=system:masters/CN=admin
  if [ "$CONTROLLERS" = yes ]; then
    identity controller-manager /CN=system:kube-controller-manager
    identity scheduler /CN=system:kube-scheduler
  fi
}

wait_for_apiserver() {
  wait_until 60 apiserver "the API server" apiserver_ready
}

# Starts DNS for names inside the cluster, such as those of headless Services. Jobs do not need DNS, so this
# function starts it only if CoreDNS was built.
start_dns() {
  [ -x "$BIN/coredns" ] || { say "no DNS: CoreDNS is not built (deploy/local/build.sh coredns)"; return 0; }
  identity dns /CN=ringmaster:dns
  cat >"$STATE/Corefile" <<C
cluster.local:53 {
  bind $(host_address)
  errors
  kubernetes cluster.local {
    kubeconfig $STATE/dns.kubeconfig $NAME
    ttl 2
  }
}
C
  start coredns "$BIN/coredns" -conf "$STATE/Corefile"
}
