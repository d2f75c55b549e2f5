# shellcheck shell=bash
# Sourced by the scripts of figures that need a real cluster. Starts three nodes, installs Ringmaster, and creates the namespace `bench`,
# which enforces Pod Security `restricted`. CLUSTER_NAME names a running cluster to use instead. A cluster that this file starts is
# stopped at the end.
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/lib.sh"
cluster_name=${CLUSTER_NAME:-bench-$$}
cluster() { "$repository/deploy/local/cluster.sh" --name "$cluster_name" "$@"; }

begin_bench_cluster() {
  if [ -z "${CLUSTER_NAME:-}" ]; then
    trap 'cluster down >&2' EXIT
    "$repository/deploy/local/build.sh" >&2
    "$repository/images/build.sh" operator worker-debian13 >&2
    cluster up 3 >&2
  fi
  eval "$(cluster env)"
  if [ -z "${CLUSTER_NAME:-}" ]; then
    # shellcheck disable=SC2046  # a list of paths
    cluster load $("$repository/images/build.sh" --archives operator worker-debian13) >&2
    install_ringmaster >&2
  fi
  restricted_namespace bench
}
