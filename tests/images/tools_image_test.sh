#!/usr/bin/env bash
# Tests the tools image as Pods with an unrelated image use it: first `install` into a volume, also with errors; then the programs from
# that volume in the root file systems of four images: an empty one, busybox, musl, and a Debian whose name service and OpenSSL load
# libraries that end the program. All runs have a uid without a name, a read-only root and no other folder. Needs root; takes seconds.
#
#   tests/images/tools_image_test.sh [PROGRAM]     tests PROGRAM instead of the ringmaster-tools of `images/build.sh tools`
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "${1:-}" = inside ] || exec unshare --mount --pid --fork --kill-child "$0" inside "$@"
fail() { echo "FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'umount -R -l "$work" && rmdir "$work"' EXIT
mount -t tmpfs -o size=512m tmpfs "$work"
image=$work/image volume=$work/volume uid=12345
mkdir "$image" "$volume"

if [ $# -gt 1 ]; then
  "$2" install "$image/ringmaster"
  mkdir -p "$image/ringmaster/lib/ringmaster/python"
  cp -r worker/python/ringmaster "$image/ringmaster/lib/ringmaster/python/"
else
  mkdir "$work/layout"
  tar -xf "$(images/build.sh --archives tools)" -C "$work/layout"
  manifest=$work/layout/blobs/$(jq -r '.manifests[0].digest | sub(":"; "/")' "$work/layout/index.json")
  for layer in $(jq -r '.layers[].digest | sub(":"; "/")' "$manifest"); do zstd -dqcf "$work/layout/blobs/$layer" | tar -xf - -C "$image"; done
fi
file=$image/ringmaster/bin/ringmaster-tools
! readelf -lW "$file" | grep INTERP || fail "the program requires a dynamic loader"
! readelf -dW "$file" | grep NEEDED || fail "the program requires shared libraries"
[ "$(stat -c %s "$file")" -le 20000000 ] || fail "the program is larger than 20 MB: $(stat -c %s "$file") bytes"

as_user() { # root [NAME=value...] command...: runs the command as a container runtime would
  local root=$1 variables=()
  shift
  while [[ $1 == *=* ]]; do variables+=("$1") && shift; done
  setpriv --no-new-privs env -i PATH=/bin "${variables[@]}" "$(type -P chroot)" --userspec=$uid:$uid --groups= "$root" "$@"
}
expect() { # text command...: checks that the command fails and prints the text
  local text=$1 said
  shift
  ! said=$("$@" 2>&1) || fail "expected '$text', but the command succeeded: $*"
  grep -F -- "$text" <<<"$said" >/dev/null || fail "expected '$text' from $*, got: $said"
}

# The volume has the mode and group that an emptyDir has with fsGroup.
as_empty_dir=mode=2775,gid=$uid
mount -t tmpfs -o "$as_empty_dir" tmpfs "$volume"
seal() { # root: makes the root read-only, except for the volume
  mkdir -p "$1"/{dev,proc,volume}
  touch "$1/dev/null"
  mount --bind "$1" "$1"
  mount -o remount,bind,ro "$1"
  mount -t proc proc "$1/proc"
  mount --bind /dev/null "$1/dev/null"
  mount --bind "$volume" "$1/volume"
}
seal "$image"

# The init container.
package=$image/ringmaster/lib/ringmaster/python
[ -s "$package/ringmaster/__init__.py" ] || fail "the image has no Python package"
install_tools() { as_user "$image" /ringmaster/bin/ringmaster-tools install /volume; }
names='ringmaster-agent ringmaster-attach ringmaster-audit ringmaster-launcher ringmaster-rsh ringmaster-tools'
installed() { # when
  [ "$(cd "$volume/bin" && echo *)" = "$names" ] || fail "$1 there is $(ls "$volume/bin")"
  diff -r "$package" "$volume/lib/ringmaster/python" || fail "$1 the Python package differs from that of the image"
  cmp "$file" "$volume/bin/ringmaster-tools" || fail "$1 the program differs from that of the image"
}
[ "$(cd "$image/ringmaster/bin" && echo *)" = "$names" ] || fail "unexpected programs in the image: $(ls "$image/ringmaster/bin")"
install_tools && installed "after install"
install_tools && installed "after the second one"
truncate -s 4096 "$volume/bin/ringmaster-tools"
chmod 0600 "$volume/bin/ringmaster-tools"
echo torn >"$volume/bin/ringmaster-tools.new"
rm "$volume/bin/ringmaster-launcher"
install_tools && installed "over half of one"

mount -t tmpfs -o "$as_empty_dir,size=1m" tmpfs "$image/volume"
expect 'while installing into /volume, which must be writable and have room for' install_tools
expect 'No space left on device' install_tools
[ -z "$(ls -A "$image/volume/bin")" ] || fail "the failed copy to a full volume left $(ls -A "$image/volume/bin")"
mount -o remount,ro "$image/volume"
expect 'Read-only file system' install_tools
umount "$image/volume"
mount -t tmpfs -o mode=0755 tmpfs "$image/volume"
expect 'Permission denied' install_tools
umount "$image/volume"

# Make root file systems without Ringmaster.
mkdir -p "$work"/{empty,busybox/bin,musl/lib,debian/usr/{bin,lib/{x86_64-linux-gnu,ssl},lib64},debian/etc}
busybox=$(type -P busybox)
cp "$busybox" "$work/busybox/bin/"
for name in sh cat; do ln -s busybox "$work/busybox/bin/$name"; done
cat >"$work/busybox/bin/nvidia-smi" <<'SH'
#!/bin/sh
[ "$*" = -L ] && echo 'GPU 0: NVIDIA H100 (UUID: GPU-aa)'
SH
chmod +x "$work/busybox/bin/nvidia-smi"
cp -r "$work/busybox/bin" "$work/musl/"
cp -L /lib/ld-musl-x86_64.so.1 "$work/musl/lib/"

debian=$work/debian
for name in bin lib lib64; do ln -s "usr/$name" "$debian/$name"; done
mapfile -t programs < <(type -P bash getent)
mapfile -t libraries < <(ldd "${programs[@]}" | sed -n 's|^\t[^/]*\(/[^ ]*\) (.*|\1|p' | sort -u)
tar -C / -chf - "${programs[@]#/}" "${libraries[@]#/}" | tar -C "$debian" --keep-directory-symlink -xf -
cp -L /lib64/ld-linux-x86-64.so.2 "$debian/lib/x86_64-linux-gnu/" # Debian has it there, and libraries look for it there
gcc -shared -fPIC -x c - -o "$debian/lib/x86_64-linux-gnu/libnss_trap.so.2" <<'C'
#include <stdlib.h>
__attribute__((constructor)) static void End(void) { _Exit(99); }
C
for database in passwd group hosts; do echo "$database: trap"; done >"$debian/etc/nsswitch.conf"
cat >"$debian/usr/lib/ssl/openssl.cnf" <<'CNF'
openssl_conf = all
[all]
providers = providers
[providers]
trap = trap
[trap]
module = /lib/x86_64-linux-gnu/libnss_trap.so.2
activate = 1
CNF

# Make the files that the agent reads in its Pod. The certificates are not valid, so the agent fails when it loads a certificate.
mkdir "$volume/credentials"
hashes=
for item in agent-token ssh-host-key ssh-user-key ssh-host-key.pub ssh-user-key.pub tls.key tls.crt operator-token; do
  echo "not a real $item" >"$volume/credentials/$item"
  hashes+=",\"$item\":\"$(sha256sum <"$volume/credentials/$item" | cut -d' ' -f1)\""
done
pod=(RINGMASTER_JOB_NAME=job RINGMASTER_JOB_UID=1 RINGMASTER_POD_NAME=pod RINGMASTER_POD_UID=2 RINGMASTER_TERM=1
  RINGMASTER_LAUNCHER_ADDRESS=192.0.2.1 'RINGMASTER_LAUNCH_SPEC={"command":["train"]}' "RINGMASTER_ITEM_SHA256={${hashes:1}}"
  RINGMASTER_CREDENTIALS_DIR=/volume/credentials RINGMASTER_RUNTIME_DIR=/volume/run RINGMASTER_TERMINATION_LOG=/volume/log)

declare -A says=([agent]="Ringmaster's agent" [attach]="Ringmaster's attach" [audit]='Proves from' [launcher]="Ringmaster's launcher"
  [rsh]="Ringmaster's remote shell" [tools]="Ringmaster's programs")
for root in empty busybox musl debian; do
  seal "$work/$root"
  for name in "${!says[@]}"; do
    said=$(as_user "$work/$root" "/volume/bin/ringmaster-$name" --help) || fail "$name --help in the $root root exited with code $?"
    grep -F "${says[$name]}" <<<"$said" >/dev/null || fail "unexpected output of $name --help in the $root root: $said"
  done
  said=$(as_user "$work/$root" /volume/bin/ringmaster-tools audit --version)
  grep '^ringmaster-audit ' <<<"$said" >/dev/null || fail "expected the help of ringmaster-audit, got: $said"
  expect "loading the launcher's TLS certificate" as_user "$work/$root" "${pod[@]}" /volume/bin/ringmaster-agent
  grep "^u$uid:" "$volume/run/nss/passwd" >/dev/null || fail "no passwd entry was created for the uid in the $root root"
  rm -rf "$volume/run"
  expect 'loading the TLS certificate' as_user "$work/$root" "${pod[@]}" /volume/bin/ringmaster-launcher
  rm -rf "$volume/run"
done

# Check the roots: busybox has a shell, musl has its loader, and Debian's name service ends programs.
as_user "$work/busybox" /bin/sh -c : || fail "the busybox root has no shell"
expect 'musl libc' as_user "$work/musl" /lib/ld-musl-x86_64.so.1
as_user "$debian" getent passwd $uid && fail "getent found the uid" || [ $? = 99 ] || fail "getent of the Debian root did not read nsswitch.conf"

# Checks the GPUs that the agent reports, in the form of nvidia-smi. The agent that reports them runs until this script ends.
expect_gpus() { # root text
  local said
  IFS= read -r said < <(as_user "$work/$1" /volume/bin/ringmaster-agent --watch-gpus any 2>&1)
  [ "$said" = "$2" ] || fail "expected the GPUs '$2' in the $1 root, got '$said'"
}
expect_gpus busybox $'device\tGPU-aa\t'
expect_gpus empty $'none\tprogram "nvidia-smi" not found in PATH (/bin)'
echo "tools_image_test: ok"
