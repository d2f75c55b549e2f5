#!/bin/bash
# Makes a worker's root file system out of a distribution's: sshd, mpirun and what lets any uid use them.
# Run by worker.Dockerfile as one step, so that what slim.sh removes again is in no layer.
set -euo pipefail
here=$(dirname "$0")
. "$here/packages.sh"

before=$(mktemp)
dpkg-query -W -f '${Package}\n' >"$before"

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${run_packages[@]}"
apt-get clean
# An image for GPUs keeps all that was installed: there the plugins for them are wanted.
case $ID in debian) bash "$here/slim.sh" "$before" ;; esac

# Any uid. A Pod may run as a uid that the cluster picks and that /etc/passwd does not know, with a root that is read-only;
# sshd and ssh refuse to work for a user without a name. The agent and the launcher write that user's line
# to /tmp/ringmaster/nss/passwd, where libnss-extrausers looks through this link.
sed -i -E '/extrausers/! s/^(passwd|group):.*/& extrausers/' /etc/nsswitch.conf
rm -rf /var/lib/extrausers
ln -s /tmp/ringmaster/nss /var/lib/extrausers

# The default user. Its password field is `*` (no password): with `!` the account is locked and sshd refuses keys as well.
if existing=$(getent passwd 1000); then
  userdel "${existing%%:*}"
fi
groupadd --gid 1000 ringmaster
useradd --uid 1000 --gid 1000 --home-dir /tmp --no-create-home --shell /bin/sh --password '*' ringmaster

# Every job brings its own host key; /run/sshd is only for an sshd that somebody starts as root.
rm -f /etc/ssh/ssh_host_*
mkdir -p /run/sshd /etc/ringmaster

rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /usr/share/{man,info,locale,lintian,bash-completion,zsh} /etc/*- "$before"

find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -type d -empty -delete
ldconfig
