#pragma once

// The bench's operations as NCCL calls on device memory. The trainer's communicator launches and
// monitors these calls like its own calls.

#include <span>

#include "worker/bench/collectives/collective.h"
#include "worker/trainer/comm/nccl/nccl_communicator.h"

namespace ringmaster::bench {

// Starts the calls; several calls form an NCCL group. REQUIRES: at least one call.
trainer::WorkHandle StartOnNccl(trainer::NcclCommunicator& communicator,
                                std::span<const Call> together, trainer::Deadline deadline);

}  // namespace ringmaster::bench
