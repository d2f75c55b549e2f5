#!/usr/bin/env bash
# Tests a job with an image that does not contain Ringmaster, mpirun, sshd or a passwd file, and whose user is root: an init container
# adds our programs, and the agents start the user's program.
# shellcheck disable=SC2016 # what is in single quotes is for the shell in the image
. "$(dirname "$0")/lib.sh"
new_namespace foreign

cluster=$("$(dirname "$0")/job_cluster.sh" name)
work=$(mktemp -d)
clean_up() { rm -rf "$work"; }
mkdir -p "$work/root/bin"
cp /bin/busybox "$work/root/bin/"
"$work/root/bin/busybox" --install -s "$work/root/bin"
for link in "$work/root/bin"/*; do [ ! -L "$link" ] || ln -sf busybox "$link"; done
"$(dirname "$0")/foreign_image.py" localhost/foreign-busybox:1 "$work/root" "$work/busybox.tar"
"$repository/deploy/local/cluster.sh" --name "$cluster" load "$work/busybox.tar" >/dev/null 2>&1
IMAGE=localhost/foreign-busybox:1

# The agents start one process per slot, and each process is a rank.
command='[sh, -c, "echo rank $RANK of $WORLD_SIZE, slot $LOCAL_RANK, uid $(id -u), at home in $HOME; ls $PYTHONPATH/ringmaster/py.typed"]'
job per-slot 2 "$command" '  slotsPerWorker: 2' | as_user apply -f -
wait_condition per-slot Succeeded True 60
assert_equal 'who started the ranks' Agents "$(status_field per-slot startedBy)"
log=$(as_user logs "$(launcher_pod per-slot)" -c launcher)
assert_contains "the launcher's log" 'rank 0 of 4, slot 0, uid 1000, at home in /tmp' "$log"
assert_contains 'where ranks find the Python package' '/ringmaster/tools/lib/ringmaster/python/ringmaster/py.typed' "$log"

# The agents start one process per worker; in a real program, this process starts the ranks. After a worker is deleted, all processes
# start again.
command='[sh, -c, "echo node $PET_NODE_RANK of $PET_NNODES starts $PET_NPROC_PER_NODE, meets at $PET_MASTER_ADDR:$PET_MASTER_PORT; exec sleep 600"]'
job per-worker 2 "$command" '  slotsPerWorker: 8
  launchMode: PerWorker' | as_user apply -f -
wait_condition per-worker Running True 60
says_start() { as_user logs "$1" -c worker | grep -E 'node [01] of 2 starts 8, meets at [0-9.]+:2[0-9]{4}' >/dev/null; }
wait_for "the second worker's start" 20 says_start per-worker-worker-1
as_user delete pod per-worker-worker-1 --wait=false >/dev/null
began_again() { [ "$(status_field per-worker epoch)" -ge 2 ] && condition_is per-worker Running True && says_start per-worker-worker-2; }
wait_for 'the next world' 60 began_again
as_user delete trainingjob per-worker >/dev/null

job none 1 '[sh, -c, "true"]' '  inject: None' | as_user apply -f -
wait_condition none Failed True 60
assert_contains 'an image of root that is left as it is' 'none-(launcher|worker).*its image runs as root' "$(condition none Failed message)"
