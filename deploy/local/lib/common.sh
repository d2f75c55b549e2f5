# shellcheck shell=bash
# Paths that every part of the local cluster uses, and functions that print, fail, start a program and wait for it.
# cluster.sh sources this file after it has set the variables below.

: "${here:?}" "${NAME:?}" "${BASE:?}" "${CACHE:?}"

STATE=$BASE/$NAME
RECORD=$STATE/record
SLOTS=$BASE/.slots PORTS=$BASE/.ports SETTINGS=$BASE/.settings

say() { echo "cluster $NAME: $*" >&2; }
die() {
  echo "cluster $NAME: $*" >&2
  exit 1
}

kubectl() { "$BIN/kubectl" --kubeconfig "$STATE/admin.kubeconfig" "$@"; }

# Reads or writes a cluster setting that later commands need (address, port, number of nodes). Each setting is a small file.
setting() { cat "$STATE/setting/$1" 2>/dev/null || true; }
set_setting() { printf '%s\n' "$2" >"$STATE/setting/$1"; }

# Removes the proxies from the environment of this script and of the programs that it starts, because all of them talk to addresses
# of this machine. Called after the programs are built, which may need a proxy.
forget_proxies() { unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; }

need_root() {
  [ "$(id -u)" = 0 ] || die "real nodes need root (network namespaces, mounts, cgroups); 'up 0' does not"
}

need_commands() {
  local command missing=()
  for command in "$@"; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  [ ${#missing[@]} -eq 0 ] || die "missing on this machine: ${missing[*]}; run deploy/local/prerequisites.sh cluster"
}

# Runs a command under the lock that all clusters of this machine share (for address slots, ports, sysctls).
machine_wide() {
  mkdir -p "$BASE"
  (
    flock 8
    "$@"
  ) 8>"$BASE/.lock"
}

# Takes the lock of this cluster for the rest of the script, so that two commands never interleave.
lock_cluster() {
  local file=$BASE/.$NAME.lock
  mkdir -p "$BASE"
  # `down` removes the file: a process that waited for the lock of the removed file tries again with the new file.
  until [ "/proc/$$/fd/9" -ef "$file" ]; do
    exec 9>"$file"
    flock -w 300 9 || die "another command has locked this cluster for 5 minutes; run fuser $file to find it"
  done
}

# Prints the kernel's start time of a process, which shows whether a recorded pid now belongs to another process.
start_time() { # pid
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  # shellcheck disable=SC2086  # the fields after the program's name are split on purpose
  set -- ${stat##*) }
  [ "$1" = Z ] || echo "${20}"
}

# Starts a program in the background, detached, with its output in log/NAME.log. The program is recorded before it runs and before
# this function returns, so that a clean-up at any time finds it. Descriptors 7 to 9 are locks: a child that kept them open would
# hold the locks for as long as it runs.
start() { # name command...
  local name=$1
  shift
  read -r _ < <(
    pid=$BASHPID
    echo "$pid" >"$STATE/pid/$name"
    record process "$name" "$pid" "$(start_time "$pid")"
    echo recorded
    exec setsid "$@" </dev/null >>"$STATE/log/$name.log" 2>&1 7>&- 8>&- 9>&-
  ) || die "$name could not be recorded in $RECORD, so it was not started"
}

running() { # name
  local pid
  pid=$(cat "$STATE/pid/$1" 2>/dev/null) && [ -n "$(start_time "$pid")" ]
}

# Prints the lines of a program's log that show why the program failed.
why() { # name
  local log=$STATE/log/$1.log lines
  lines=$(grep -iE 'error|fail|fatal|panic|in use|denied|refused' "$log" 2>/dev/null | tail -n 5 | cut -c -400)
  printf '%s\n' "${lines:-$(tail -n 5 "$log" 2>/dev/null | cut -c -400)}" | sed "s/^/  $1: /" >&2
}

# Polls a command until it succeeds; gives up when the program has ended or the time limit is over.
# RINGMASTER_PATIENCE multiplies the time, for machines that are busy with other work.
wait_until() { # seconds program what command...
  local deadline=$((SECONDS + $1 * ${RINGMASTER_PATIENCE:-1})) program=$2 what=$3
  shift 3
  until "$@" >/dev/null 2>&1; do
    if [ -n "$program" ] && [ -e "$STATE/pid/$program" ] && ! running "$program"; then
      why "$program"
      die "while waiting for $what: $program has exited; its log is $STATE/log/$program.log until the clean-up"
    fi
    if [ $SECONDS -ge $deadline ]; then
      [ -z "$program" ] || why "$program"
      die "while waiting for $what: not there in time"
    fi
    sleep 0.05
  done
}
