#pragma once

// Times one operation for a range of sizes and checks its results, as nccl-tests does. Ranks
// synchronise before the timed iterations. The iterations are queued together and then awaited.
// Each iteration uses the next section of large buffers, so that results do not come from a cache.

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/clock.h"
#include "worker/bench/collectives/backend.h"

namespace ringmaster::bench {

// Synchronisation between iterations: nccl-tests' -z 0 to 2.
enum class Blocking { kNo, kWaitAndMeet, kWait };

// How the times of the ranks are combined: nccl-tests' -a 0 to 3.
enum class Average { kRank0, kMean, kLeast, kMost };

struct Sweepings {
  Collective collective = Collective::kAllReduce;
  std::vector<int64_t> sizes{};  // bytes of the larger buffer of a rank
  std::vector<trainer::ElementType> types{};
  std::vector<trainer::ReduceOp> ops{};  // contains one element if the operation does not reduce
  int root = 0;
  int iterations = 20;
  int warm_up = 5;     // iterations before the timed ones
  int aggregated = 1;  // operations in one iteration
  Blocking blocking = Blocking::kNo;
  Average average = Average::kMean;
  bool check = true;
};

// The result of one form: out of place, or in place.
struct Timing {
  double micros = 0;     // time of one operation: the mean over iterations
  double algorithm = 0;  // GB/s (1e9)
  double bus = 0;        // GB/s
  int64_t wrong = -1;    // wrong elements on all ranks; -1: not checked
};

struct Row {
  int64_t bytes = 0;
  std::size_t count = 0;  // the operation's count argument, in elements
  trainer::ElementType type = trainer::ElementType::kFloat32;
  trainer::ReduceOp op = trainer::ReduceOp::kSum;
  Timing out_of_place{};
  Timing in_place{};
};

// Calls `report` after each row, on every rank. Skips sizes smaller than one element.
Result<std::vector<Row>> Measure(Backend& backend, const Sweepings& sweep, const Clock& clock,
                                 const std::function<void(const Row&)>& report);

}  // namespace ringmaster::bench
