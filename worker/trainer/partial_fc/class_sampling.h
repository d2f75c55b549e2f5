#pragma once

// Selects the classes of a step's softmax, as a pure function of (seed, step, class) and the step's
// labels, so that worlds of any size compute the same loss. Each class is drawn independently with
// the sample rate; the classes of the step's samples are always included. The number of classes in
// a shard thus varies around rate × rows. (A fixed number per shard, as in arcface_torch, would
// depend on the number of shards.)

#include <cstdint>
#include <span>
#include <vector>

namespace ringmaster::trainer::partial_fc {

// Classes [begin, end), which are also rows of the table of centres.
struct ClassRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool contains(int64_t label) const { return begin <= label && label < end; }
  friend bool operator==(const ClassRange&, const ClassRange&) = default;
};

struct SamplingOptions {
  uint64_t seed = 1;
  double rate = 1;  // in (0, 1]
};

// Returns the classes of `range` in `step` (from 0), ascending. `labels` are of the whole batch.
std::vector<int64_t> SampledClasses(const SamplingOptions& options, int64_t step,
                                    std::span<const int64_t> labels, ClassRange range);

}  // namespace ringmaster::trainer::partial_fc
