#!/usr/bin/env bash
# The cluster that the job tests share (a ctest fixture): job_cluster.sh up | down; its name: job_cluster.sh name.
set -euo pipefail
. "$(dirname "$0")/../../deploy/lib.sh"
# Of this checkout: another one's tests may run beside it.
name=${RINGMASTER_E2E_CLUSTER:-e2e-$(cksum <<<"$repository" | cut -d' ' -f1)}
cluster() { "$repository/deploy/local/cluster.sh" --name "$name" "$@"; }

case ${1:-} in
  up)
    cluster down >/dev/null 2>&1 || true
    cluster up 3
    eval "$(cluster env)"
    # shellcheck disable=SC2046 # one path a word
    cluster load $("$repository/images/build.sh" --archives)
    "$repository/deploy/local/build.sh" helm
    # shellcheck disable=SC2119  # with no values of its own
    install_chart
    ;;
  down) cluster down ;;
  name) echo "$name" ;;
  *) echo "usage: job_cluster.sh up|down|name" >&2; exit 2 ;;
esac
