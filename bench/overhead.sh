#!/usr/bin/env bash
# Figure B11: what fault tolerance costs a step when nothing fails, in alternating blocks of steps of the same processes.
# Arguments go to figure-b11: --ranks=2 --global-batch=64 --steps=50 --rounds=60.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${RINGMASTER_BENCH_BUILD:-$root/build/bench-worker}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
[ -f "$build/build.ninja" ] ||
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DRINGMASTER_TESTS=ON -DRINGMASTER_OPERATOR=OFF >/dev/null
cmake --build "$build" --target figure-b11 >&2
exec "$build/tests/overhead/figure-b11" "$@"
