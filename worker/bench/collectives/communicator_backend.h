#pragma once

// The trainer's communicators as backends of the bench, on the memory that they work on: Gloo's and
// the one over shared memory on the host's, NCCL's on a GPU's. The bench's operations run in place
// there, so what out-of-place operations copy first is in their time.

#include <memory>
#include <string>

#include "worker/bench/collectives/backend.h"

namespace ringmaster::bench {

// Of `name` gloo, shared-memory or nccl. kInvalid: there is no device for this rank.
Result<std::unique_ptr<Backend>> MakeCommunicatorBackend(const std::string& name,
                                                         const trainer::World& world);

// Whether each of `ranks` on this machine finds a GPU for NCCL; kInvalid: why one does not. Leaves
// nothing behind in this process, which may still fork.
Result<void> CheckGpus(int ranks);

}  // namespace ringmaster::bench
