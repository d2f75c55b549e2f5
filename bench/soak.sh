#!/usr/bin/env bash
# Random schedules of faults, one seed after the other, each with an audit of the ranks' logs: bench/soak.sh [COUNT] [FIRST SEED]
# A seed that fails stops the soak; the printed line repeats it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${RINGMASTER_BENCH_BUILD:-$root/build/bench-worker}
count=${1:-200} first=${2:-1}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
"$root/deploy/local/prerequisites.sh" build cluster
[ -f "$build/build.ninja" ] ||
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DRINGMASTER_TESTS=ON -DRINGMASTER_OPERATOR=OFF >/dev/null
cmake --build "$build" --target ringmaster-bench >&2
for seed in $(seq "$first" $((first + count - 1))); do
  line=("$build/tests/chaos/ringmaster-bench" chaos --seed="$seed" --count=3 --every=0.3 --lost-after=300
    "--faults=kill-rank,kill-agent,stop,cut,cut-in,launcher")
  "${line[@]}" >"$build/soak.log" 2>&1 || { tail -n 100 "$build/soak.log" && echo "seed $seed failed: ${line[*]}" && exit 1; }
  echo "seed $seed ($((seed - first + 1)) of $count): $(tail -n 1 "$build/soak.log")"
done
echo "$count schedules, no step lost or repeated"
