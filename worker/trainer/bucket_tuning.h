#pragma once

// How large buckets should be, measured between the ranks of the first world that has several. An
// allreduce costs a start and a time for each byte; small buckets pay many starts, a large one is
// reduced when backward has nothing left to hide it. For gradients of S bytes in a pipeline of
// buckets of b bytes the cost is S/b starts and one bucket's time, least at b = √(start · S /
// time per byte) (Shi et al., "MG-WFBP", arXiv 1811.11141, measure the same two numbers).
//
// What was chosen is part of the replicated state from the first step on that was applied with it:
// who joins takes it over, checkpoints keep it, and no world measures again.

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/comm/communicator.h"

namespace ringmaster::trainer {

// What an allreduce costs between the ranks of a world, of which the slowest counts.
struct ReductionCost {
  double start_seconds = 0;
  double seconds_per_byte = 0;
};

// Of gradients of `total` bytes: in whole 64 KiB, and no smaller than that.
int64_t BucketBytesFor(const ReductionCost& cost, int64_t total);

// Thread-safety: one thread.
class BucketTuner {
 public:
  static constexpr int64_t kGrain = 64 << 10;  // bytes

  // Bytes of a bucket, the same on every rank; nothing: this world has one rank, and nothing was
  // chosen before. `memory` are gradients, lost by this. Well under a second where a rank can
  // reduce 64 KiB in 50 ms. Every rank of the world calls it, with the same state; an error is one
  // of the communicator.
  Result<std::optional<int64_t>> Choose(Communicator& communicator, Elements memory,
                                        const Clock& clock, Deadline deadline);
  // A step was applied in the world of the last Choose().
  void Applied();

  // One number, whose memory stays where it is.
  std::span<float> state() { return {&chosen_, 1}; }

 private:
  float chosen_ = 0;  // in grains; 0: nothing yet. So many are exact.
  float pending_ = 0;
};

}  // namespace ringmaster::trainer
