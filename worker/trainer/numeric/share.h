#pragma once

// How a number of items is divided among the ranks of a world: samples of a batch, rows of a table.

#include <cstdint>

namespace ringmaster::trainer {

// Positions [begin, end) of a global batch (or of an evaluation set).
struct Share {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// The contiguous share of rank `rank` of `world_size`: floor(rank*total/world_size) …
// floor((rank+1)*total/world_size). Shares differ by at most one sample; with more ranks than
// samples some are empty.
inline Share ShareOf(int rank, int world_size, int64_t total) {
  return {rank * total / world_size, (rank + 1) * total / world_size};
}

}  // namespace ringmaster::trainer
