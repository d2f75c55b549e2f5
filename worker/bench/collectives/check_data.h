#pragma once

// Generates the input of an operation and its expected output. Values are small integers, so that
// every type represents all intermediate results exactly, in any order of reduction, for worlds of
// up to 256 ranks (8-bit integers wrap as expected). Each value is a hash of (rank, index), so data
// from a wrong rank or position differs.

#include <cstdint>

#include "worker/bench/collectives/collective.h"

namespace ringmaster::bench {

struct CheckedCall {
  Call call{};
  int rank = 0;
  int ranks = 1;
};

// Writes this rank's data to `send`. Fills the part of `receive` outside of `send` with values that
// no operation produces.
void Fill(const CheckedCall& checked);

// Returns the number of wrong elements in `receive` on this rank.
int64_t CountWrong(const CheckedCall& checked);

}  // namespace ringmaster::bench
