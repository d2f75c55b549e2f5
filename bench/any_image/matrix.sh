#!/usr/bin/env bash
# Figure B18: runs jobs in root file systems that do not contain Ringmaster, each with every program that the root file system can
# contain. Launcher and two agents are started from a volume, where an init container would put them. User and group have no name, the root
# is read-only except /tmp, and processes cannot gain privileges. mmdebstrap creates the roots once, in the cache.
#   matrix.sh TOOLS [ROOT...]     TOOLS is ringmaster-tools; the default is all roots
# Prints a line for each cell and, last, the figure. Needs root.
# shellcheck disable=SC2016 # shells in the roots expand the variables in single quotes
set -euo pipefail
fail() { echo "matrix.sh: $*" >&2; exit 1; }
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/roots
uid=54321 address=10.77.0.1

# --- roots ---
debian_root() { # NAME: creates a root in the cache: SUITE, SUITE-python (adds only python3 to the essential packages) or SUITE-sshd (adds sshd and shell tools)
  local include=()
  case $1 in
    *-python) include=(--include=python3-minimal) ;;
    *-sshd) include=('--include=openssh-server,procps,python3-minimal') ;;
  esac
  [ ! -e "$cache/$1" ] || return 0
  mkdir -p "$cache"
  rm -rf "$cache/$1.new"
  # The release file of sid on a frozen mirror is older than apt allows, but it is signed.
  mmdebstrap --quiet --mode=root --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' "${include[@]}" \
    "${1%-*}" "$cache/$1.new" "${MIRROR:-http://deb.debian.org/debian}" >&2
  rm -rf "$cache/$1.new"/dev/* "$cache/$1.new"/var/{cache,lib}/apt/*
  mv "$cache/$1.new" "$cache/$1"
}

if [ "${1:-}" != inside ]; then # outside the new network namespace, so that mmdebstrap can download
  tools=${1:?which ringmaster-tools}
  shift
  for suite in bullseye bookworm trixie sid; do roots+=("$suite" "$suite-python" "$suite-sshd"); done
  roots+=(busybox musl scratch foreign)
  [ $# -eq 0 ] || roots=("$@")
  for root in "${roots[@]}"; do case $root in busybox | musl | scratch | foreign) ;; *) debian_root "$root" ;; esac; done
  exec unshare --mount --pid --fork --kill-child --mount-proc --net "$0" inside "$tools" "${roots[@]}"
fi
tools=$2
shift 2
roots=("$@")
work=$(mktemp -d)
trap 'umount -R -l "$work" && rmdir "$work"' EXIT
mount -t tmpfs tmpfs "$work"

make_root() { # NAME: creates the root file system $work/NAME
  local root=$work/$1
  mkdir "$root"
  case $1 in
    busybox | musl)
      mkdir -p "$root"/{bin,lib}
      cp "$(type -P busybox)" "$root/bin/"
      for name in sh cat sleep id uname; do ln -s busybox "$root/bin/$name"; done
      [ "$1" = busybox ] || cp -L /lib/ld-musl-x86_64.so.1 "$root/lib/" ;;
    scratch | foreign)
      gcc -O1 -static -x c - -o "$root/program" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  printf("rank %s of %s as %d\n", getenv("RANK"), getenv("WORLD_SIZE"), (int)getuid());
  return 0;
}
C
      # To get a program for another architecture, write arm64's number into the ELF header.
      [ "$1" = scratch ] || printf '\xb7\x00' | dd of="$root/program" bs=1 seek=18 conv=notrunc status=none ;;
    *) mount --bind "$cache/$1" "$root" ;;
  esac
}

seal() { # NAME: prepares the mounts of the root file system as for a container
  local root=$work/$1
  mkdir -p "$root"/{dev,proc,tmp,ringmaster/tools,credentials}
  touch "$root/dev/null"
  mount --bind "$root" "$root"
  mount -o remount,bind,ro "$root"
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mount --bind /dev/null "$root/dev/null"
  mount --bind "$work/volume" "$root/ringmaster/tools"
  mount --bind "$work/credentials" "$root/credentials"
}

# --- one job ---
items=(agent-token ssh-host-key ssh-user-key ssh-host-key.pub ssh-user-key.pub tls.key tls.crt operator-token)
make_credentials() {
  local folder=$work/credentials
  mkdir "$folder"
  for kind in host user; do ssh-keygen -q -t ed25519 -N '' -C job -f "$folder/ssh-$kind-key"; done
  openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=launcher -addext subjectAltName=DNS:launcher.matrix.ringmaster.dev \
    -keyout "$folder/tls.key" -out "$folder/tls.crt" 2>/dev/null
  echo -n the-agents-token >"$folder/agent-token"
  echo -n the-operators-token >"$folder/operator-token"
  chmod 0444 "$folder"/*
  for item in "${items[@]}"; do jq -n --arg item "$item" --arg sum "$(sha256sum <"$folder/$item" | cut -d' ' -f1)" '{($item): $sum}'; done |
    jq -sc add >"$work/hashes"
}

container() { # ROOT NAME PROGRAM [VARIABLE=value...]: starts the program as the kubelet would; its output goes to $work/NAME.log
  local root=$work/$1 name=$2 program=$3
  shift 3
  : >"$work/$name.log"
  setpriv --no-new-privs env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
    RINGMASTER_JOB_NAME=matrix RINGMASTER_NAMESPACE=team RINGMASTER_JOB_UID=matrix RINGMASTER_POD_NAME="$name" RINGMASTER_TERM=1 \
    RINGMASTER_CREDENTIALS_DIR=/credentials RINGMASTER_RUNTIME_DIR="/tmp/$name" RINGMASTER_TERMINATION_LOG="/tmp/$name-verdict" \
    RINGMASTER_SNAPSHOT_DIR=/tmp RINGMASTER_LAUNCHER_ADDRESS=$address RINGMASTER_ITEM_SHA256="$(cat "$work/hashes")" "$@" \
    "$(type -P chroot)" --userspec=$uid:$uid --groups= "$root" "/ringmaster/tools/bin/$program" >"$work/$name.log" 2>&1 &
  pids+=($!)
}

order='{"stamp":{"leaderTerm":1,"generation":1},"replicas":2,"minReplicas":2,"version":1,
  "workers":{"pods":"worker-","nodes":["node"],"rows":[["uid-0",0,0],["uid-1",1,0]]}}'
send_order() {
  local name=launcher.matrix.ringmaster.dev
  curl --silent --fail --max-time 2 --cacert "$work/credentials/tls.crt" --resolve "$name:8471:$address" \
    --header 'Authorization: Bearer the-operators-token' --request PUT --data "$order" \
    "https://$name:8471/v1/order" >/dev/null
}

# run_job ROOT COMMAND (JSON): runs a job; sets $verdict, and $seconds to the job's duration. The logs are in $work/*.log.
run_job() {
  local spec began
  spec=$(jq -nc --argjson command "$2" '{command: $command, slotsPerWorker: 2, inPlace: false}')
  pids=()
  began=$(date +%s%3N)
  container "$1" launcher ringmaster-launcher RINGMASTER_LAUNCH_SPEC="$spec"
  for worker in 0 1; do
    container "$1" "worker-$worker" ringmaster-agent RINGMASTER_LAUNCH_SPEC="$spec" RINGMASTER_POD_UID="uid-$worker" RINGMASTER_WORKER_INDEX="$worker"
  done
  for _ in $(seq 100); do ! send_order || break; sleep 0.1; done
  timeout 60 tail --pid="${pids[0]}" -f /dev/null || true
  seconds=$(jq -n "($(date +%s%3N) - $began) / 1000")
  verdict=$(cat "$work/$1/tmp/launcher-verdict" 2>/dev/null || true)
  kill -9 "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
  rm -rf "$work/$1"/tmp/*
}

# --- cells ---
cells=0 passed=0 slowest=0
cell() { # ROOT PROGRAM COMMAND [TEXT]: checks that each of the four ranks prints its number, or that the job is rejected with TEXT
  local why='' rank
  run_job "$1" "$3"
  cells=$((cells + 1))
  if [ -n "${4:-}" ]; then
    [[ $verdict == *'"succeeded":false'* && $verdict == *"$4"* ]] || why="was to be refused with '$4', not: $verdict"
  else
    [[ $verdict == *'"succeeded":true'* ]] || why="verdict: ${verdict:-none}"
    for rank in 0 1 2 3; do
      cat "$work"/worker-*.log | grep "rank $rank of 4 as $uid" >/dev/null || why+="; rank $rank says nothing"
    done
  fi
  printf '%-16s %-8s %5.2f s  %s\n' "$1" "$2" "$seconds" "${why:-ok}"
  slowest=$(jq -n "[$slowest, $seconds] | max")
  if [ -z "$why" ]; then passed=$((passed + 1)); else tail -n 20 "$work"/{launcher,worker-0}.log >&2; fi
}

ip link set lo up
ip link add eth0 type veth peer name eth1
ip addr add $address/24 dev eth0
ip link set eth0 up
ip link set eth1 up
make_credentials
mkdir "$work/volume"
"$tools" install "$work/volume"

shell='["sh", "-c", "echo rank $RANK of $WORLD_SIZE as $(id -u)"]'
python='["python3", "-c", "import os; print(\"rank\", os.environ[\"RANK\"], \"of\", os.environ[\"WORLD_SIZE\"], \"as\", os.getuid())"]'
for root in "${roots[@]}"; do
  make_root "$root"
  seal "$root"
  for name in agent attach launcher audit tools; do
    "$(type -P chroot)" --userspec=$uid:$uid --groups= "$work/$root" "/ringmaster/tools/bin/ringmaster-$name" --help >/dev/null ||
      fail "ringmaster-$name --help fails in $root"
  done
  case $root in
    scratch) cell scratch static '["/program"]' ;;
    foreign) cell foreign static '["/program"]' 'is built for arm64 and this node is x86-64' ;;
    *) cell "$root" sh "$shell" ;;
  esac
  case $root in
    *-python | *-sshd) cell "$root" python "$python" ;;
    *) cell "$root" missing '["python3", "train.py"]' 'program \"python3\" not found in PATH' ;;
  esac
  umount -R -l "$work/$root"
done
jq -cn --argjson cells $cells --argjson passed $passed --argjson slowest "$slowest" --arg roots "${roots[*]}" '
  {figure: "B18", value: $passed, unit: "cells of roots × programs that ended as they should", reference: $cells, reference_is: "all cells",
   goal: "all", holds: ($passed == $cells), slowest_s: $slowest, roots: ($roots | split(" ") | length)}'
