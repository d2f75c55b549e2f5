# shellcheck shell=bash disable=SC2034  # the scripts that source this file use the variables
# Sourced by the scripts of the figures: makes Release builds of the measured programs, each in its own build tree.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

release() { # FOLDER "OPTIONS" TARGET...
  "$root/deploy/local/prerequisites.sh" build cluster >&2
  # shellcheck disable=SC2086  # a list of options
  [ -f "$1/build.ninja" ] || cmake -G Ninja -S "$root" -B "$1" -DCMAKE_BUILD_TYPE=Release $2 >/dev/null
  cmake --build "$1" --target "${@:3}" >&2
}

# Builds the operator and the programs that measure it.
operator_build=${RINGMASTER_BENCH_BUILD:-$root/build/bench}
operator_programs() { release "$operator_build" "-DRINGMASTER_BENCH=ON -DRINGMASTER_WORKER=OFF" "$@"; }

# Builds launcher, agent and trainer, and ringmaster-chaos, which injects faults into them.
worker_build=${RINGMASTER_BENCH_BUILD:-$root/build/bench-worker}
ringmaster_chaos=$worker_build/tests/chaos/ringmaster-chaos
worker_programs() { release "$worker_build" "-DRINGMASTER_TESTS=ON -DRINGMASTER_OPERATOR=OFF" "$@"; }

# Builds the trainer and ringmaster-bench, without the tests: enough for the trainer's figures.
trainer_build=${RINGMASTER_BENCH_BUILD:-$root/build/bench-trainer}
trainer_bench=$trainer_build/worker/bench/ringmaster-bench
trainer_programs() { release "$trainer_build" "-DRINGMASTER_OPERATOR=OFF" "$@"; }
