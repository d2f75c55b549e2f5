#!/usr/bin/env bash
# Builds everything without caches: optimised, each source by itself (no unity build), with warnings as errors. This finds sources that
# compile only if a unity build includes another source first, and sources that cause warnings only when optimised. Prints the build time
# in the last line.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
"$root/deploy/local/prerequisites.sh" build cluster >&2
build=$root/build/cold
rm -rf "$build"
trap 'rm -rf "$build"' EXIT
cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=OFF -DRINGMASTER_WERROR=ON \
  -DRINGMASTER_TESTS=ON -DRINGMASTER_BENCH=ON >/dev/null
CCACHE_DISABLE=1 cmake --build "$build" -- -k 0
echo "cold build without unity: $(find "$build" -name '*.o' | wc -l) objects in $SECONDS s"
