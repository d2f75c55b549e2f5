#!/usr/bin/env bash
# Programs of others, from PyPI, each through every fault: mpi4py under Open MPI 4 and 5, torchrun, DistributedDataParallel, Accelerate
# and JAX, with a killed rank, a deleted worker, a node that is cut off and a deleted launcher (tests/runtime/real_programs_test.cc).
# Then what trains in place and is too long for `make test`: on the local cluster, Hugging Face's Trainer (tests/e2e, label soak).
# Needs root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
worker_programs real_programs_test runtime_programs ringmaster-audit
RINGMASTER_ALL_FAULTS=1 "$worker_build/tests/runtime/real_programs_test"
"$root/deploy/local/prerequisites.sh" build cluster images
"$root/images/build.sh" operator tools worker-debian13 worker-debian12
ctest --test-dir "$worker_build" --output-on-failure --no-tests=error -L '^soak$'
