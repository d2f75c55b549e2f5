#pragma once

// One clock for the ranks of a world: rank 0's. All leave a barrier at nearly the same moment; the
// median over a few of them says how far a rank's own clock is off, to within the time that one
// message takes. Called by the session when a world begins; every rank of it takes part.

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

// Nanoseconds to add to this process's clock. `offset` is what rank 0 adds to its own, so that the
// clock of one world goes on in the next.
Result<int64_t> AlignClocks(Communicator& communicator, const Clock& clock, int64_t offset,
                            Deadline deadline);

}  // namespace ringmaster::trainer
