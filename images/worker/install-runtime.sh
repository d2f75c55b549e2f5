#!/bin/bash
# Turns a distribution's root file system into a worker's: installs sshd and mpirun and lets any uid use them.
# worker.Dockerfile runs it as one step, so that no layer has the files that slim.sh removes.
set -euo pipefail
here=$(dirname "$0")
. "$here/packages.sh"

before=$(mktemp)
dpkg-query -W -f '${Package}\n' >"$before"

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${run_packages[@]}"
# NVIDIA's base image has a libcudart, which would be a second one beside the wheel's, and a libcuda (cuda-compat), which would hide
# the node's driver.
read -r -a second <<<"$(dpkg-query -W -f '${Package} ' 'cuda-*' 2>/dev/null || true)"
[ ${#second[@]} = 0 ] || apt-get purge -y -q "${second[@]}"
rm -rf /usr/local/cuda* /etc/ld.so.conf.d/*cuda*
apt-get clean
# An image for GPUs keeps everything that was installed, because it needs the plugins for GPUs.
case $ID in debian) bash "$here/slim.sh" "$before" ;; esac

# Support any uid. A Pod may have a read-only root and a uid that the cluster picks and /etc/passwd does not know, but sshd and ssh
# need a user with a name. The agent and the launcher write that user's line to /tmp/ringmaster/nss/passwd, where libnss-extrausers
# finds it through this link.
sed -i -E '/extrausers/! s/^(passwd|group):.*/& extrausers/' /etc/nsswitch.conf
rm -rf /var/lib/extrausers
ln -s /tmp/ringmaster/nss /var/lib/extrausers

# The default user. Its password field is `*` (no password): with `!` the account is locked and sshd refuses keys as well.
if existing=$(getent passwd 1000); then
  userdel "${existing%%:*}"
fi
groupadd --gid 1000 ringmaster
useradd --uid 1000 --gid 1000 --home-dir /tmp --no-create-home --shell /bin/sh --password '*' ringmaster

# Every job has its own host key. /run/sshd is only for an sshd that somebody starts as root.
rm -f /etc/ssh/ssh_host_*
mkdir -p /run/sshd /etc/ringmaster

rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /usr/share/{man,info,locale,lintian,bash-completion,zsh} /etc/*- "$before"

find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -type d -empty -delete
ldconfig
