#pragma once

// The second half of a reduce-scatter: reduces the pieces that other ranks sent directly.

#include <cstddef>
#include <cstring>
#include <vector>

#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

// Reduces `pieces`, one from each rank and as long as `mine`, into `mine` in rank order.
inline void ReducePieces(const std::vector<std::byte>& pieces, Elements mine, ReduceOp op) {
  const ReduceFunction reduce = ReduceFunctionFor(mine.type, op);
  std::memcpy(mine.data, pieces.data(), mine.bytes());
  for (std::size_t at = mine.bytes(); at < pieces.size(); at += mine.bytes()) {
    reduce(mine.data, mine.data, pieces.data() + at, mine.count);
  }
}

}  // namespace ringmaster::trainer
