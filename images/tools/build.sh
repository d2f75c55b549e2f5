#!/bin/bash
# Compiles ringmaster-tools for $TARGETARCH and lays out the root of its image. Usage: build.sh SOURCE ROOT; run by tools.Dockerfile,
# whose cache mount is $CCACHE_DIR.
set -euo pipefail
source=$1 root=$2
native=$(dpkg --print-architecture)
target=${TARGETARCH:-$native}
case $target in
  amd64) tools=x86_64-linux-gnu ;;
  arm64) tools=aarch64-linux-gnu ;;
  *) echo "ringmaster-tools is built for amd64 and arm64, not for $target" >&2 && exit 1 ;;
esac

cross=()
if [ "$target" != "$native" ]; then
  cross=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=${tools%%-*}" "-DCMAKE_C_COMPILER=$tools-gcc" "-DCMAKE_CXX_COMPILER=$tools-g++"
    "-DCMAKE_LIBRARY_ARCHITECTURE=$tools"
    "-DOPENSSL_CRYPTO_LIBRARY=/usr/lib/$tools/libcrypto.a" "-DOPENSSL_SSL_LIBRARY=/usr/lib/$tools/libssl.a")
  ln -sf "$(command -v ld.lld)" "/usr/bin/$tools-ld.lld" # the name by which the compiler calls it
fi
cmake -S "$source" -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DRINGMASTER_OPERATOR=OFF -DRINGMASTER_TRAINER=OFF \
  -DRINGMASTER_STATIC=ON "${cross[@]}"
ninja -C /build -j "$(nproc)" ringmaster-tools

program=/build/worker/tools/ringmaster-tools
"$tools-strip" "$program"
if [ "$target" = "$native" ]; then
  "$program" install "$root/ringmaster"
  # Check that the program starts with only the files of this root.
  chroot "$root" /ringmaster/bin/ringmaster-agent --version
else
  # The program cannot run here, so make its links with the names listed in worker/tools/main.cc.
  mkdir -p "$root/ringmaster/bin"
  install -m 0755 "$program" "$root/ringmaster/bin/"
  for name in agent attach audit launcher rsh; do ln -s ringmaster-tools "$root/ringmaster/bin/ringmaster-$name"; done
fi
"$(dirname "$0")/record-packages.sh" /build "$root"
rm -rf /build # keeps objects out of the layer; the compiler cache has them
