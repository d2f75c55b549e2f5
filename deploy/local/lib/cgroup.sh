# shellcheck shell=bash
# Makes the cgroup of each node, under which its kubelet creates the Pods' cgroups: with cgroup v1, one directory per hierarchy
# (runc also uses a v2 hierarchy beside them, "hybrid"); with only cgroup v2, one directory with its controllers enabled.

only_cgroup_v2() { [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; }

make_cgroup() { # name
  local mount
  if only_cgroup_v2; then
    make_cgroup_v2 "$1"
    return
  fi
  while read -r mount; do
    [ ! -e "$mount/$1" ] || die "the cgroup $mount/$1 exists already and is not ours"
    record cgroup "$mount/$1"
    mkdir "$mount/$1"
  done < <(awk '$3 == "cgroup" || $3 == "cgroup2" {print $2}' /proc/mounts)
  # A new cpuset accepts no process until its CPUs and memory nodes are set.
  mount=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpuset(,|$)/ {print $2}' /proc/mounts)
  if [ -n "$mount" ]; then
    cat "$mount/cpuset.cpus" >"$mount/$1/cpuset.cpus"
    cat "$mount/cpuset.mems" >"$mount/$1/cpuset.mems"
  fi
}

# Fails if cgroup v2 lacks a controller that kubelet requires in its root cgroup: cpu, cpuset, memory or pids. kubelet also
# requires hugetlb if the kernel has it.
need_cgroup() {
  local controller
  only_cgroup_v2 || return 0
  for controller in cpu cpuset memory pids; do
    grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers ||
      die "the cgroup v2 controller $controller is not available in /sys/fs/cgroup, and kubelet needs it; in a container, start that with its own cgroup namespace and all controllers"
  done
}

make_cgroup_v2() { # name
  local controller root=/sys/fs/cgroup available
  available=$(cat $root/cgroup.controllers)
  [ ! -e "$root/$1" ] || die "the cgroup $root/$1 exists already and is not ours"
  for controller in cpu cpuset memory pids io hugetlb; do
    [[ " $available " == *" $controller "* ]] || continue
    machine_wide take_setting "cgroup.$controller" + ||
      die "the cgroup v2 controller $controller could not be enabled in $root/cgroup.subtree_control; in a container, its processes must first move to a cgroup below the root"
  done
  record cgroup "$root/$1"
  mkdir "$root/$1"
  tr ' ' '\n' <"$root/$1/cgroup.controllers" | while read -r controller; do
    echo "+$controller" >"$root/$1/cgroup.subtree_control" || true
  done
}

# Prints whether a controller of the v2 root is on (+) or off (-) for the root's children.
read_controller() { # controller
  if grep -qw "$1" /sys/fs/cgroup/cgroup.subtree_control; then echo +; else echo -; fi
}

write_controller() { # controller +|-
  [ "$(read_controller "$1")" != "$2" ] || return 0
  echo "$2$1" >/sys/fs/cgroup/cgroup.subtree_control
}

cgroup_processes() { # prints the pid of every process in the recorded cgroups
  local directory
  for directory in $(recorded cgroup); do
    if [ -d "$directory" ]; then find "$directory" -name cgroup.procs -exec cat {} + 2>/dev/null || true; fi
  done | sort -u
}

kill_cgroups() {
  local directory deadline=$((SECONDS + 10)) pid
  for directory in $(recorded cgroup); do
    if [ -e "$directory/cgroup.kill" ]; then echo 1 >"$directory/cgroup.kill"; fi
  done
  while [ -n "$(cgroup_processes)" ] && [ $SECONDS -lt $deadline ]; do
    for pid in $(cgroup_processes); do kill -9 "$pid" 2>/dev/null || true; done
    sleep 0.02
  done
}

remove_cgroups() {
  local directory
  for directory in $(recorded cgroup); do
    if [ -d "$directory" ]; then find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null || true; fi
    [ ! -d "$directory" ] || say "the cgroup $directory could not be removed; it still holds: $(tr '\n' ' ' <"$directory/cgroup.procs")"
  done
}
