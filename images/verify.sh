#!/bin/bash
# Checks that a built worker image works in the strictest cluster: mpirun starts 2 ranks on each of two hosts over ssh, as a uid
# that the image does not know, with a read-only root, no capabilities and no new privileges.
#
#   images/verify.sh worker-debian13|worker-debian12
#
# The hosts are network namespaces that end with this script. It leaves nothing behind.
set -euo pipefail
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/images
archive=$cache/$1.oci.tar
[ -f "$archive" ] || { echo "images/verify.sh: $archive is missing; run images/build.sh $1" >&2 && exit 1; }

if [ "${2:-}" != inside ]; then
  exec unshare --mount --net --pid --fork --kill-child "$0" "$1" inside
fi

uid=1000730000 gid=0
work=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; wait; umount -R -l "$work" && rmdir "$work"' EXIT
mount -t tmpfs -o size=3g tmpfs "$work"
mkdir "$work"/{layout,root,tmp}
chmod 1777 "$work/tmp"
mount -t proc proc /proc

# Unpack the root as a node does: the layers of the archive, one over the other.
tar -xf "$archive" -C "$work/layout"
manifest=$work/layout/blobs/$(jq -r '.manifests[0].digest | sub(":"; "/")' "$work/layout/index.json")
for layer in $(jq -r '.layers[].digest | sub(":"; "/")' "$manifest"); do
  zstd -dqcf "$work/layout/blobs/$layer" >"$work/layer.tar"
  tar -tf "$work/layer.tar" | sed -n 's|\.wh\.||p' | while read -r removed; do rm -rf "${work:?}/root/$removed"; done
  tar -xf "$work/layer.tar" -C "$work/root" --exclude='.wh.*'
done
rm -rf "$work/layer.tar" "$work/layout"

mount --bind "$work/root" "$work/root"
mount -t proc proc "$work/root/proc"
mount -t sysfs sysfs "$work/root/sys"
mount --rbind /dev "$work/root/dev"
mount --bind "$work/tmp" "$work/root/tmp"
mount -o remount,bind,ro "$work/root"

# as_job COMMAND...: runs the command in the image as the job's user. A process that gives up uid 0 loses all capabilities.
as_job() { setpriv --no-new-privs chroot --userspec="$uid:$gid" --groups= "$work/root" "$@"; }
expect() { "${@:2}" || { echo "images/verify.sh: $1" >&2 && exit 1; }; }

# Do what the agent and the launcher do when they start: add a name for the uid, and set the keys' modes as ssh requires.
as_job /bin/sh -eu <<EOF
mkdir -p /tmp/ringmaster/nss /tmp/job
echo "job:*:$uid:100:job:/tmp:/bin/sh" >/tmp/ringmaster/nss/passwd
: >/tmp/ringmaster/nss/group
umask 077
ssh-keygen -q -t ed25519 -N '' -f /tmp/job/host
ssh-keygen -q -t ed25519 -N '' -f /tmp/job/user
cp /tmp/job/user.pub /tmp/job/authorized_keys
printf '%s\n' 'Port 2222' 'HostKey /tmp/job/host' 'AuthorizedKeysFile /tmp/job/authorized_keys' 'PidFile none' 'UsePAM no' \
  'StrictModes no' 'PasswordAuthentication no' 'SetEnv MARK=from-sshd' >/tmp/job/sshd_config
for address in 10.0.0.2 10.0.0.3; do echo "[\$address]:2222 \$(cut -d' ' -f1,2 /tmp/job/host.pub)"; done >/tmp/job/known_hosts
printf '%s\n' '10.0.0.2 slots=2' '10.0.0.3 slots=2' >/tmp/job/hostfile
EOF
expect "uid $uid has no name: libnss-extrausers does not work" [ "$(as_job id -un)" = job ]
expect "the root is not read-only" [ "$(as_job sh -c 'touch /etc/x 2>&1 || echo refused' | tail -n 1)" = refused ]

# Make two hosts, network namespaces behind a bridge, and start an sshd in each.
ip link set lo up
ip link add bridge0 type bridge
ip address add 10.0.0.1/24 dev bridge0
ip link set bridge0 up
for host in 2 3; do
  mkfifo "$work/ready$host"
  unshare --net bash -c "echo >'$work/ready$host'; until ip link show peer$host >/dev/null 2>&1; do sleep 0.02; done
    ip link set lo up; ip address add 10.0.0.$host/24 dev peer$host; ip link set peer$host up
    exec setpriv --no-new-privs chroot --userspec=$uid:$gid --groups= '$work/root' /usr/sbin/sshd -D -e -f /tmp/job/sshd_config" \
    2>"$work/sshd$host.log" &
  read -r <"$work/ready$host"
  ip link add "host$host" type veth peer name "peer$host"
  ip link set "host$host" master bridge0 up
  ip link set "peer$host" netns $!
  for _ in $(seq 200); do
    (exec 3<>"/dev/tcp/10.0.0.$host/2222") 2>/dev/null && break
    sleep 0.05
  done
done

ssh_arguments="-p 2222 -i /tmp/job/user -o UserKnownHostsFile=/tmp/job/known_hosts -o StrictHostKeyChecking=yes -o BatchMode=yes"
version=$(as_job mpirun --version)
version=${version%%$'\n'*}
case $version in
  *\ 4.*) flags=(-mca plm_rsh_no_tree_spawn true -mca plm_rsh_args "$ssh_arguments" -mca rmaps_base_mapping_policy slot) ;;
  *) flags=(--prtemca plm_ssh_no_tree_spawn 1 --prtemca plm_ssh_args "$ssh_arguments" --map-by slot) ;;
esac
started=$(date +%s%N)
# shellcheck disable=SC2016  # expanded by the ranks
as_job mpirun --hostfile /tmp/job/hostfile -np 4 --bind-to none "${flags[@]}" \
  sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, uid $(id -u), $MARK, $(ringmaster-train --version)"' \
  >"$work/ranks" || { tail -n 20 "$work"/sshd?.log >&2 && exit 1; }
echo "$version: $((($(date +%s%N) - started) / 1000000)) ms"
sort "$work/ranks"
expect "mpirun did not start 4 ranks through sshd" [ "$(grep -c "of 4, uid $uid, from-sshd" "$work/ranks")" = 4 ]

trainer="--workload=mnist --data=generated --generated-samples=256 --global-batch=32 --steps=5 --threads=1"
as_job sh -c "ringmaster-train $trainer --step-log=none --audit-log=/tmp/job/audit" >"$work/trained" 2>&1 ||
  { tail -n 5 "$work/trained" >&2 && exit 1; }
as_job sh -c "ringmaster-replay /tmp/job/audit -- $trainer" >"$work/replayed" 2>&1 || { tail -n 5 "$work/replayed" >&2 && exit 1; }
tail -n 1 "$work/replayed"
echo "verified: $1"
