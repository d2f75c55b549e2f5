#!/usr/bin/env bash
# Tests programs from PyPI with every kind of fault: mpi4py under Open MPI 4 and 5, torchrun, DistributedDataParallel, Accelerate and JAX, with
# a killed rank, a deleted worker, a node that is cut off and a deleted launcher (tests/runtime/real_programs_test.cc). Then tests
# Hugging Face's Trainer in mode InPlace on the local cluster, which takes too long for `make test` (tests/e2e, label soak).
# Needs root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
worker_programs real_programs_test runtime_programs ringmaster-audit
RINGMASTER_ALL_FAULTS=1 "$worker_build/tests/runtime/real_programs_test"
"$root/deploy/local/prerequisites.sh" build cluster images
"$root/images/build.sh" operator tools worker-debian13 worker-debian12
ctest --test-dir "$worker_build" --output-on-failure --no-tests=error -L '^soak$'
