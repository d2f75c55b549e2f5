# shellcheck shell=bash
# Records everything that `up` creates. Each item is recorded before it is created, so that `down` undoes exactly what `up` did.
# One line per item: kind and arguments, separated by tabs. Kinds: process, directory, netns, link, route,
# iptables, cgroup, slot, port, setting.

record() {
  local IFS=$'\t'
  echo "$*" >>"$RECORD"
}

recorded() { # kind -> prints the recorded lines of that kind, without the kind, newest first
  [ ! -f "$RECORD" ] || tac "$RECORD" | sed -n "s/^$1\t//p"
}

# --- Resources that all clusters of the machine share ---------------------------------------------------------------

# Each cluster has one range of addresses, 10.SLOT.0.0/16: .0.0/24 nodes, .64.0/18 Pods (a /24 per node), .128.0/17 Services.
take_slot() { # prints the slot that it took; call this function through machine_wide
  local slot used
  used=$(ip -4 -o addr show; ip -4 route show table all)
  mkdir -p "$SLOTS"
  for slot in $(seq 64 127); do
    grep -qE "(^|[^0-9.])10\.$slot\." <<<"$used" && continue
    [ -e "$SLOTS/$slot" ] && continue
    echo "$NAME" >"$SLOTS/$slot"
    record slot "$slot"
    echo "$slot"
    return
  done
  die "no free address range among 10.64.0.0/16 to 10.127.0.0/16"
}

# Takes the first port, from the requested one upwards, that is not in use and not taken by another cluster.
take_port() { # requested port -> prints the port that it took; call this function through machine_wide
  local port used
  used=$(ss -Htln | awk '{print $4}')
  mkdir -p "$PORTS"
  for port in $(seq "$1" $(($1 + 400))); do
    grep -q ":$port\$" <<<"$used" && continue
    [ -e "$PORTS/$port" ] && continue
    echo "$NAME" >"$PORTS/$port"
    record port "$port"
    echo "$port"
    return
  done
  die "no free port between $1 and $(($1 + 400))"
}

# A setting is a sysctl, or a controller of the cgroup v2 root, that must have another value while clusters run. The first cluster
# saves the old value; the last cluster restores it.
read_setting() { # key
  case $1 in cgroup.*) read_controller "${1#cgroup.}" ;; *) sysctl -n "$1" ;; esac
}

write_setting() { # key value
  case $1 in cgroup.*) write_controller "${1#cgroup.}" "$2" ;; *) sysctl -qw "$1=$2" ;; esac
}

take_setting() { # key value; call this function through machine_wide
  mkdir -p "$SETTINGS/$1"
  [ -s "$SETTINGS/$1/before" ] || read_setting "$1" >"$SETTINGS/$1/before"
  : >"$SETTINGS/$1/user-$NAME"
  record setting "$1"
  write_setting "$1" "$2"
}

release_setting() { # key; call this function through machine_wide
  rm -f "$SETTINGS/$1/user-$NAME"
  compgen -G "$SETTINGS/$1/user-*" >/dev/null && return
  [ -e "$SETTINGS/$1/before" ] || return 0
  write_setting "$1" "$(cat "$SETTINGS/$1/before")" || say "could not set $1 back to $(cat "$SETTINGS/$1/before")"
  rm -rf "${SETTINGS:?}/$1"
}

release_shared() { # call this function through machine_wide
  local value
  for value in $(recorded slot); do rm -f "$SLOTS/$value"; done
  for value in $(recorded port); do rm -f "$PORTS/$value"; done
  for value in $(recorded setting | sort -u); do release_setting "$value"; done
  rmdir "$SLOTS" "$PORTS" "$SETTINGS" 2>/dev/null || true
}
