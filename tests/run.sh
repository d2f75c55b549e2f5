#!/usr/bin/env bash
# Builds everything and runs the tests, with progress; the last line counts the test cases: "N passed, N failed, N skipped".
#
#   tests/run.sh unit     the dev build's unit tests
#   tests/run.sh all      lint, unit, tsan, gpu, fuzz, integration, runtime and end-to-end tests
#
# Builds: everything with the preset dev (ASan, and UBSan for the LibTorch parts); everything except the LibTorch parts
# with TSan and UBSan; the trainer with CUDA, which needs no GPU (deploy/gpu-box.sh runs all its tests on a machine with
# one); libFuzzer targets with clang. Files that are slow to build or to download (LibTorch, Kubernetes, root file
# systems, compiled objects) are cached outside the tree by version. Kubernetes and the images are built, and PyPI packages
# fetched, in the background, with the CPU time that the other builds leave.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
what=${1:-all}
export RINGMASTER_PATIENCE=${RINGMASTER_PATIENCE:-4}  # factor for timeouts, because the machine is busy
export OMP_WAIT_POLICY=passive  # threads that wait for work do not spin
export GTEST_BRIEF=1  # print only failed tests, because logs are truncated
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-10G}
. tests/steps.sh
declare -A background=()  # processes by name
trap clean_up EXIT

clean_up() {
  [ ${#background[@]} -eq 0 ] || kill -- "${background[@]/#/-}" 2>/dev/null || true
  rm -rf "$reports"
}

meanwhile() { # name command...: starts the command in the background, in a new process group; see `outcome`
  set -m
  { renice -n 19 "$BASHPID" >/dev/null && "${@:2}"; } >"$reports/$1.log" 2>&1 &
  set +m
  background[$1]=$!
}

outcome() { # name: shows the output of the command until it ends, and returns its exit code
  local process=${background[$1]}
  tail -n +1 --follow --pid="$process" "$reports/$1.log"
  unset "background[$1]"
  wait "$process"
}

configure() { # preset
  cmake --preset "$1" >"$reports/configure-$1.log" || { cat "$reports/configure-$1.log"; return 1; }
}

build() { # preset cmake-arguments...
  configure "$1" || return
  cmake --build --preset "$@" -- -k 0
}

# Fetches what the tests would fetch one by one. A test whose package could not be fetched tries again and says why it failed.
fetch_packages() {
  local requirements
  deploy/local/pytorch.sh
  for requirements in tests/runtime/programs/*.requirements; do
    deploy/local/pypi.sh "$(basename "$requirements" .requirements)" || true
  done
}

install_cuda() {
  local found
  found=$(deploy/local/cuda.sh) && eval "$found"
}

step "Debian packages" deploy/local/prerequisites.sh || { summary; exit 1; }
if [ "$what" = all ]; then
  meanwhile kubernetes deploy/local/build.sh kubernetes etcd helm oras registry prometheus
  meanwhile images images/build.sh operator tools worker-debian13 worker-debian12 tools-arm64
  meanwhile packages fetch_packages
fi
if [ "$what" = all ] && step "configure: dev" configure dev; then
  step "lint" run_tests dev lint -j2 -L '^lint$' || true
fi
if step "build: dev (ASan)" build dev; then
  step "unit tests" run_tests dev unit -j3 -L '^unit$' || true
fi
if [ "$what" = all ]; then
  if step "build: tsan (TSan, UBSan)" build tsan --target unit_tests; then
    # cpprestsdk is not built with the sanitizer, so TSan cannot see how its threads synchronise and reports false
    # races. kubectl-trainingjob has one thread. TSan delays signals, so kubectl-trainingjob sometimes misses the end of
    # a child.
    step "unit tests under TSan and UBSan" run_tests tsan tsan -j3 -L '^unit$' -E '^(http|cli)_test$' || true
  fi
  if step "build: CUDA and PyTorch" install_cuda && step "build: the GPU trainer" build gpu --target ringmaster-train ringmaster-bench trainer_gpu_test; then
    step "tests of the GPU trainer" run_tests gpu gpu -L '^gpu$' || true
  fi
  if step "build: fuzz" build fuzz --target fuzz_targets; then
    step "fuzz targets, a short run each" run_tests fuzz fuzz -j2 -L '^fuzz$' || true
  fi
  step "build: Kubernetes, helm and Prometheus" outcome kubernetes || true
  step "build: images" outcome images || true
  # tests/{runtime,e2e}/CMakeLists.txt define which tests may run in parallel.
  step "runtime, integration and end-to-end tests" run_tests dev jobs -j3 -L '^(runtime|integration|e2e)$' || true
fi
summary
