#pragma once

// The order in which the values of ranks are summed. It is the same as in Gloo, so that a job's
// results do not depend on whether its ranks share memory. Small data is summed in the order of the
// ranks (gloo/direct_allreduce.h). Larger data is summed as in a ring: each part is passed from
// each rank to the next lower rank, and one rank completes the sum.

#include <cstddef>
#include <vector>

namespace ringmaster::trainer {

// Up to this size, an allreduce sums in the order of the ranks.
inline constexpr std::size_t kDirectAllReduceBytes = 512 << 10;

// A part of the data, in bytes. The values of the ranks are summed in the order of `ranks`.
struct ReductionPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<int> ranks{};
};

// Returns parts that cover `bytes` in order. REQUIRES: ranks > 0; bytes is a multiple of `element`.
std::vector<ReductionPart> ReductionParts(std::size_t bytes, std::size_t element, int ranks);

}  // namespace ringmaster::trainer
