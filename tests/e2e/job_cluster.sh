#!/usr/bin/env bash
# Starts or stops the cluster that the job tests share (a ctest fixture): job_cluster.sh up | down. `job_cluster.sh name` prints its
# name.
set -euo pipefail
. "$(dirname "$0")/../../deploy/lib.sh"
# The name contains the checkout's checksum, because tests of another checkout may run at the same time.
name=${RINGMASTER_E2E_CLUSTER:-e2e-$(cksum <<<"$repository" | cut -d' ' -f1)}
cluster() { "$repository/deploy/local/cluster.sh" --name "$name" "$@"; }

case ${1:-} in
  up)
    cluster down >/dev/null 2>&1 || true
    cluster up 3
    eval "$(cluster env)"
    # shellcheck disable=SC2046 # each word is a path
    cluster load $("$repository/images/build.sh" --archives)
    "$repository/deploy/local/build.sh" helm
    # shellcheck disable=SC2119  # with the default values
    install_chart
    ;;
  down) cluster down ;;
  name) echo "$name" ;;
  *) echo "usage: job_cluster.sh up|down|name" >&2; exit 2 ;;
esac
