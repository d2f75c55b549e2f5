#include "worker/trainer/comm/reduction_order.h"

#include <algorithm>

namespace ringmaster::trainer {
namespace {

// The longest segment that Gloo's ring sends at once. The ring divides the data into segments of at
// most this size. Each rank gets the same number of segments, at least two.
constexpr std::size_t kRingSegmentBytes = 1 << 20;

std::size_t CeilOf(std::size_t value, std::size_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace

std::vector<ReductionPart> ReductionParts(std::size_t bytes, std::size_t element, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  ReductionPart whole{.begin = 0, .end = bytes};
  for (int rank = 0; rank < ranks; ++rank) whole.ranks.push_back(rank);
  if (ranks <= 2 || bytes <= kDirectAllReduceBytes) return {whole};

  const std::size_t most = kRingSegmentBytes / element * element;
  const std::size_t of_a_rank = CeilOf(std::max(CeilOf(bytes, most), 2 * count), count);
  const std::size_t segment = CeilOf(CeilOf(bytes, of_a_rank * count), element) * element;
  std::vector<ReductionPart> parts;
  for (std::size_t part = 0; part < count; ++part) {
    const std::size_t begin = part * of_a_rank * segment;
    if (begin >= bytes) break;
    parts.push_back({.begin = begin, .end = std::min(bytes, begin + of_a_rank * segment)});
    // The sum starts at the rank before the one that completes it, and continues to lower ranks.
    for (std::size_t hop = 1; hop <= count; ++hop) {
      parts.back().ranks.push_back(static_cast<int>((part + count - hop) % count));
    }
  }
  return parts;
}

}  // namespace ringmaster::trainer
