#pragma once

// What the ranks put into an operation, and what must come out. Small integers, so that every type
// holds every intermediate result exactly, in whatever order it is reduced, for worlds of up to 256
// ranks (8-bit integers wrap as they should). Each is a hash of (rank, index): data of another
// rank, or of another place, are other data.

#include <cstdint>

#include "worker/bench/collectives/collective.h"

namespace ringmaster::bench {

struct CheckedCall {
  Call call{};
  int rank = 0;
  int ranks = 1;
};

// Writes this rank's data into `send`; what of `receive` is not also `send` gets what no operation
// gives.
void Fill(const CheckedCall& checked);

// How many elements of `receive` are not what the operation gives this rank.
int64_t CountWrong(const CheckedCall& checked);

}  // namespace ringmaster::bench
