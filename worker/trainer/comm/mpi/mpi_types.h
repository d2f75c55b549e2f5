#pragma once

// MPI's names for what collectives work on. Needs MPI's headers: private to this folder and to
// ringmaster-bench.

#include <string>

#include <mpi.h>

#include "common/base/result.h"
#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

// A type, and how MPI reduces it: with its own operation where it has the type; MPI 3 knows no
// 16-bit floats, which are reduced by elements.h. Both are MPI's, or live until MPI's end.
// REQUIRES: MPI is initialised.
struct MpiReduction {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};
MpiReduction MpiReductionOf(ElementType type, ReduceOp op);

// What MPI says of a call's code. REQUIRES: errors return (MPI_ERRORS_RETURN).
Result<void> MpiChecked(int code, const char* call);

}  // namespace ringmaster::trainer
