#!/usr/bin/env bash
# Programs of others, from PyPI, each through every fault: mpi4py under Open MPI 4 and 5, torchrun, DistributedDataParallel, Accelerate
# and JAX, with a killed rank, a deleted worker, a node that is cut off and a deleted launcher (tests/runtime/real_programs_test.cc).
# Needs root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
worker_programs real_programs_test runtime_programs
RINGMASTER_ALL_FAULTS=1 "$worker_build/tests/runtime/real_programs_test"
