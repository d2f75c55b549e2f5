# shellcheck shell=bash disable=SC2154  # lib.sh sets the variables

# Starts an API server for the test, without controllers. Sourced after lib.sh.
[ -x "$programs/kube-apiserver" ] || fail "no API server: run deploy/local/build.sh"
cluster=chart-$$
trap '"$repository/deploy/local/cluster.sh" --name "$cluster" down >/dev/null 2>&1; rm -rf "$work"' EXIT
started=$("$repository/deploy/local/cluster.sh" --name "$cluster" up 0 --no-controllers 2>"$work/up.log") || fail "$(cat "$work/up.log")"
eval "$started"

restricted_namespace() { # name
  kubectl create namespace "$1" >/dev/null
  kubectl label namespace "$1" pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/warn=restricted >/dev/null
}
