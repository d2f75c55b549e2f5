#!/bin/bash
# Compiles ringmaster-tools and lays out the root of its image. Usage: build.sh SOURCE ROOT; run by tools.Dockerfile, whose cache
# mount is $CCACHE_DIR.
set -euo pipefail
source=$1 root=$2

cmake -S "$source" -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DRINGMASTER_OPERATOR=OFF -DRINGMASTER_TRAINER=OFF \
  -DRINGMASTER_STATIC=ON
ninja -C /build -j "$(nproc)" ringmaster-tools

program=$(find /build -name ringmaster-tools -type f)
strip "$program"
"$program" install "$root/ringmaster"
rm -rf /build # objects are in the compiler cache, not in a layer

# As shipped: nothing but this root.
chroot "$root" /ringmaster/bin/ringmaster-agent --version
