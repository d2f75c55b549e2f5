#!/bin/bash
# Compiles the operator and lays out the root of its image: the program, the closure of its shared libraries, a user.
# Usage: build.sh SOURCE ROOT; run by operator.Dockerfile, whose cache mount is $CCACHE_DIR.
set -euo pipefail
source=$1 root=$2

cmake -S "$source" -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DRINGMASTER_WORKER=OFF
ninja -C /build -j "$(nproc)" ringmaster-operator

mkdir -p "$root"/{etc,usr/bin,lib64,proc,sys,dev}
install -d -m 1777 "$root/tmp"
install -s -m 0755 "$(find /build -name ringmaster-operator -type f)" "$root/usr/bin/"

# The loader stays at the path that is written into every program; libraries go to a folder that the loader searches by default.
ldd "$root/usr/bin/ringmaster-operator" | grep -o '/[^ ]*' | while read -r library; do
  case $library in
    /lib64/*) install -D -m 0755 "$library" "$root$library" ;;
    *) install -D -m 0644 "$library" "$root/usr/lib/$(uname -m)-linux-gnu/${library##*/}" ;;
  esac
done
ln -s usr/lib "$root/lib"
"$(dirname "$0")/record-packages.sh" /build "$root"
rm -rf /build # keeps objects out of the layer; the compiler cache has them

echo 'operator:x:65532:65532:operator:/:/nonexistent' >"$root/etc/passwd"
echo 'operator:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"

# Check that the program starts with only the files of this root.
chroot "$root" /usr/bin/ringmaster-operator --version
