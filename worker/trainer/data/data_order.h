#pragma once

// The samples of each step, as a pure function of (seed, step), so that worlds of any size use
// the same data in the same order. The order is an endless sequence of permutations of the data
// set, one per epoch. A step uses the next `global_batch` samples, which numeric/share.h divides
// among the ranks.

#include <cstdint>

#include "worker/trainer/numeric/share.h"

namespace ringmaster::trainer {

class DataOrder {
 public:
  // REQUIRES: samples in [1, 2^32), global_batch >= 1.
  DataOrder(uint64_t seed, int64_t samples, int64_t global_batch);

  int64_t samples() const { return samples_; }

  // Returns the sample at `position` of the batch of `step` (both from 0).
  int64_t SampleAt(int64_t step, int64_t position) const;

  // Returns the epoch (from 0) of the first sample of `step`.
  int64_t EpochOf(int64_t step) const { return step * global_batch_ / samples_; }

  // Returns the number of steps that use every sample at least `epochs` times.
  int64_t StepsFor(int64_t epochs) const {
    return (epochs * samples_ + global_batch_ - 1) / global_batch_;
  }

 private:
  uint64_t seed_;
  int64_t samples_;
  int64_t global_batch_;
  uint32_t
      half_bits_;  // the permutation has 4^half_bits_ elements, which is at most 4 * `samples_`
};

}  // namespace ringmaster::trainer
