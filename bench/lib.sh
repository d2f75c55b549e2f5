# shellcheck shell=bash disable=SC2034  # the sourcing scripts use what is set here
# Sourced by the scripts of the figures: Release builds of what they measure, each in a build tree of its own.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

release() { # FOLDER "OPTIONS" TARGET...
  "$root/deploy/local/prerequisites.sh" build cluster >&2
  # shellcheck disable=SC2086  # a list of options
  [ -f "$1/build.ninja" ] || cmake -G Ninja -S "$root" -B "$1" -DCMAKE_BUILD_TYPE=Release $2 >/dev/null
  cmake --build "$1" --target "${@:3}" >&2
}

# The operator and what measures it.
operator_build=${RINGMASTER_BENCH_BUILD:-$root/build/bench}
operator_programs() { release "$operator_build" "-DRINGMASTER_BENCH=ON -DRINGMASTER_WORKER=OFF" "$@"; }

# Launcher, agent and trainer, and ringmaster-chaos, which attacks them.
worker_build=${RINGMASTER_BENCH_BUILD:-$root/build/bench-worker}
ringmaster_chaos=$worker_build/tests/chaos/ringmaster-chaos
worker_programs() { release "$worker_build" "-DRINGMASTER_TESTS=ON -DRINGMASTER_OPERATOR=OFF" "$@"; }

# The trainer and ringmaster-bench, without the tests: all that the trainer's own figures need.
trainer_build=${RINGMASTER_BENCH_BUILD:-$root/build/bench-trainer}
trainer_bench=$trainer_build/worker/bench/ringmaster-bench
trainer_programs() { release "$trainer_build" "-DRINGMASTER_OPERATOR=OFF" "$@"; }
