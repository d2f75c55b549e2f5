#!/usr/bin/env bash
# A real API server takes every variation, strictly and without a warning, in namespaces that enforce Pod Security
# `restricted`; and with the rights that the chart grants the operator (argument 1) gets ready.
. "$(dirname "$0")/lib.sh"
. "$here/api_server.sh"
operator=${1:?the operator\'s program}

apply() { # file: its objects instead of the last one's, whose Pods and selectors could not change
  kubectl -n ringmaster-system delete --ignore-not-found --wait=false --force --grace-period=0 pods,jobs,deployments --all >/dev/null 2>&1
  kubectl apply --server-side --force-conflicts --validate=strict -f "$1" >"$work/applied" 2>&1 || fail "$1: $(grep -v serverside-applied "$work/applied")"
  ! grep -i warning "$work/applied" || fail "$1: a warning"
}

# Runs the operator with a release's arguments and ServiceAccount until it is ready.
becomes_ready() { # file account
  local port metrics pid deadline=$((SECONDS + 60 * ${RINGMASTER_PATIENCE:-1})) arguments
  : >"$work/answer"
  mapfile -t arguments < <(arguments_in "$1")
  cp "$KUBECONFIG" "$work/operator.kubeconfig"
  kubectl --kubeconfig "$work/operator.kubeconfig" config set-credentials operator --token="$(kubectl -n ringmaster-system create token "$2")" >/dev/null
  kubectl --kubeconfig "$work/operator.kubeconfig" config set-context --current --user=operator >/dev/null
  read -r port metrics < <(python3 -c 'import socket; s = [socket.socket() for _ in "12"]; [x.bind(("127.0.0.1", 0)) for x in s]; print(*[x.getsockname()[1] for x in s])')
  "$operator" --kubeconfig="$work/operator.kubeconfig" --namespace=ringmaster-system --admin-address=127.0.0.1 --admin-port="$port" \
    --metrics-address=127.0.0.1 --metrics-port="$metrics" "${arguments[@]}" >"$work/operator.log" 2>&1 &
  pid=$!
  until [ "$(curl -s -o "$work/answer" -w '%{http_code}' "http://127.0.0.1:$port/readyz")" = 200 ] || [ $SECONDS -ge $deadline ]; do
    sleep 0.2
  done
  kill "$pid" || true
  wait "$pid" || true
  [[ $(cat "$work/answer") = ok* ]] || fail "$1: the operator is not ready: $(cat "$work/answer")"
}

kubectl apply --server-side -f "$here/prometheus_operator_crds.yaml" >/dev/null
kubectl wait --for=condition=Established crd/servicemonitors.monitoring.coreos.com crd/prometheusrules.monitoring.coreos.com --timeout=60s >/dev/null
restricted_namespace ringmaster-system
kubectl create namespace team-a >/dev/null
for account in given.account default; do kubectl -n ringmaster-system create serviceaccount "$account" >/dev/null; done

render >"$work/default.yaml"
apply "$work/default.yaml"
kubectl wait --for=condition=Established crd/trainingjobs.ringmaster.dev --timeout=60s >/dev/null
becomes_ready "$work/default.yaml" ringmaster-operator
kubectl create namespace samples >/dev/null
for sample in "$repository"/deploy/samples/*.yaml; do
  kubectl -n samples apply --dry-run=server --validate=strict -f "$sample" >"$work/applied" 2>&1 || fail "$sample: $(cat "$work/applied")"
done
for values in "${variations[@]}"; do
  name=$(name_of "$values")
  render --values "$values" >"$work/$name.yaml"
  apply "$work/$name.yaml"
done
release_name=the-longest-name-that-a-release-may-have-is-this-long render --set metrics.service.enabled=true >"$work/long.yaml"
apply "$work/long.yaml"

# In one namespace: nothing of the cluster-wide rights is left, and what remains is enough there and nothing elsewhere.
kubectl delete clusterrolebinding ringmaster-operator training-operator --ignore-not-found >/dev/null
for name in watched_namespace own_namespace; do
  ! grep -E '^kind: Cluster' "$work/$name.yaml" >/dev/null || fail "$name has objects of the whole cluster"
  kubectl delete rolebinding --all -n ringmaster-system >/dev/null
  apply "$work/$name.yaml"
  becomes_ready "$work/$name.yaml" ringmaster-operator
done
apply "$work/watched_namespace.yaml"
may() { kubectl auth can-i "$@" --as system:serviceaccount:ringmaster-system:ringmaster-operator 2>/dev/null || true; }
[ "$(may create pods -n team-a)" = yes ] || fail "no rights in the watched namespace"
[ "$(may create pods -n default)$(may list nodes)$(may list trainingjobs.ringmaster.dev -A)" = nonono ] || fail "rights outside the watched namespace"
[ "$(may get secrets -n team-a)$(may get secrets -n ringmaster-system)" = nono ] || fail "it may read Secrets"
echo "${#variations[@]} variations and the defaults taken by the API server"
