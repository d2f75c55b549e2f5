#pragma once

// Divides items, such as the samples of a batch or the rows of a table, among the ranks of a world,
// and divides a rank's samples into micro-batches.

#include <algorithm>
#include <cstdint>

namespace ringmaster::trainer {

// Positions [begin, end) of a global batch (or of an evaluation set).
struct Share {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Returns the contiguous share of rank `rank` of `world_size`: floor(rank*total/world_size) …
// floor((rank+1)*total/world_size). Shares differ by at most one sample; if there are more ranks
// than samples, some shares are empty.
inline Share ShareOf(int rank, int world_size, int64_t total) {
  return {rank * total / world_size, (rank + 1) * total / world_size};
}

// A share, divided into micro-batches of `most` samples. The last micro-batch may be smaller.
class MicroBatches {
 public:
  // If `most` is 0, the share is one micro-batch.
  MicroBatches(Share share, int64_t most = 0)
      : share_(share), most_(most > 0 ? std::min(most, share.size()) : share.size()) {}

  const Share& share() const { return share_; }
  // Returns at least 1, because an empty share has one empty micro-batch.
  int64_t count() const { return most_ > 0 ? (share_.size() + most_ - 1) / most_ : 1; }
  // REQUIRES: 0 <= index < count().
  Share at(int64_t index) const {
    const int64_t begin = share_.begin + index * most_;
    return {begin, std::min(begin + most_, share_.end)};
  }
  Share last() const { return at(count() - 1); }

 private:
  Share share_;
  int64_t most_;
};

}  // namespace ringmaster::trainer
