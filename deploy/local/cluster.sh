#!/usr/bin/env bash
# Runs a real multi-node Kubernetes on one Linux machine, without Docker: etcd, API server, controllers, scheduler and, in one
# network namespace per node, containerd, kubelet, kube-proxy and a NetworkPolicy enforcer. README.md in this folder describes
# the implementation.
#
#   cluster.sh up [NODES]           start (default 3 nodes); prints the environment to use. 0 nodes: control plane only, no root
#       --no-controllers            with 0 nodes: only etcd and API server
#       --port PORT                 the API server's port (default: the first free one from 6443)
#   cluster.sh down                 stop it and remove everything it made
#   cluster.sh env                  print the lines of KUBECONFIG, PATH and no_proxy again
#   cluster.sh list                 list all clusters of this machine
#   cluster.sh load ARCHIVE...      put OCI archives on every node (name them localhost/NAME:TAG, imagePullPolicy Never)
#   cluster.sh registry HOST:PORT   let the nodes pull from that registry without TLS
#   cluster.sh address              print this machine's address, as the nodes reach it
#   cluster.sh user NAME NAMESPACE  print the path of the kubeconfig of a user who may edit only that namespace
#   cluster.sh gpus NODE COUNT      let a node advertise nvidia.com/gpu (for scheduling; there is no device)
#   cluster.sh fake N               simulate N nodes with 64 CPUs and 8 GPUs each, tainted kwok=fake:NoSchedule
#   cluster.sh cut NODE | heal NODE drop every packet of a node (a silent host) | let packets pass again
#
# --name NAME (default: ringmaster) selects the cluster; several clusters can run at the same time.
# RINGMASTER_STATE (default /var/tmp/ringmaster-cluster) is the folder of running clusters; RINGMASTER_CACHE (default
# ~/.cache/ringmaster) is the folder of built programs and unpacked images. RINGMASTER_CONTAINERD names a folder with another
# containerd for the nodes (build.sh containerd).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BASE=${RINGMASTER_STATE:-/var/tmp/ringmaster-cluster}
CACHE=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
NAME=ringmaster CONTROLLERS=yes PORT=''

usage() {
  sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "$here/cluster.sh" >&2
  exit 2
}

words=()
while [ $# -gt 0 ]; do
  case $1 in
    --name) NAME=${2:?--name needs a name} && shift ;;
    --name=*) NAME=${1#*=} ;;
    --port) PORT=${2:?--port needs a number} && shift ;;
    --port=*) PORT=${1#*=} ;;
    --no-controllers) CONTROLLERS=no ;;
    -*) usage ;;
    *) words+=("$1") ;;
  esac
  shift
done
[ ${#words[@]} -gt 0 ] || usage
[[ $NAME =~ ^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$ ]] ||
  { echo "a cluster's name is 1 to 20 lower-case letters, digits and dashes, not '$NAME'" >&2; exit 2; }

for part in common record pki control_plane network cgroup images node fake down commands; do
  # shellcheck source=/dev/null
  . "$here/lib/$part.sh"
done

set -- "${words[@]:1}"
case ${words[0]} in
  up) command_up "${1:-3}" ;;
  down) command_down ;;
  env) command_env ;;
  list) command_list ;;
  load) [ $# -gt 0 ] || usage; command_load "$@" ;;
  registry) [ $# -eq 1 ] || usage; command_registry "$1" ;;
  address) command_address ;;
  user) [ $# -eq 2 ] || usage; command_user "$@" ;;
  gpus) [ $# -eq 2 ] || usage; command_gpus "$@" ;;
  fake) [ $# -eq 1 ] || usage; command_fake "$1" ;;
  cut) [ $# -eq 1 ] || usage; command_cut "$1" ;;
  heal) [ $# -eq 1 ] || usage; command_heal "$1" ;;
  *) usage ;;
esac
