#pragma once

// Which classes take part in a step's softmax: a pure function of (seed, step, class) and of the
// step's labels, so that worlds of every size compute the same loss. A class is drawn with the
// sample rate, each for itself; the classes of the step's samples always take part. The size of a
// shard's choice therefore varies around rate × rows (a fixed quota a shard, as in arcface_torch,
// would depend on how many shards there are).

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

// Those of `range` that take part in `step` (from 0), ascending. `labels` are of the whole batch.
std::vector<int64_t> SampledClasses(const SamplingOptions& options, int64_t step,
                                    std::span<const int64_t> labels, ClassRange range);

}  // namespace ringmaster::trainer::partial_fc
