#pragma once

// In which order the ranks' values are added up. The same as over Gloo, so that a job's bits do not
// depend on whether its ranks share memory: little data in the order of the ranks
// (gloo/direct_allreduce.h), and more as a ring does, which gives each rank a part of the data to
// finish and lets it travel from one rank to the one before.

#include <cstddef>
#include <vector>

namespace ringmaster::trainer {

// Up to so many bytes an allreduce goes in the order of the ranks.
inline constexpr std::size_t kDirectAllReduceBytes = 512 << 10;

// A part of the data, in bytes, and its ranks: the first two are added up, then each that follows.
struct ReductionPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<int> ranks{};
};

// Covers `bytes` in order. REQUIRES: ranks > 0; bytes is a multiple of `element`.
std::vector<ReductionPart> ReductionParts(std::size_t bytes, std::size_t element, int ranks);

}  // namespace ringmaster::trainer
