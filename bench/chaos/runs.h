#pragma once

// Two experiments on one job of real processes: injecting faults and resizing. Both print a line
// per event and one JSON object at the end, after an audit of the ranks' logs.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/chaos/schedule.h"
#include "bench/chaos/stage.h"

namespace ringmaster::chaos {

struct ChaosOptions {
  std::vector<FaultKind> kinds;
  int count = 5;
  double every = 2;  // minimum seconds between two faults; waits for a complete world
  uint64_t seed = 1;
  StageOptions stage;
};

struct ScaleOptions {
  std::vector<int> sizes{2, 4, 2};
  StageOptions stage;
};

// Return the exit code: 0, or 1 with the reason on standard error. Ranks write logs to `folder`.
int RunChaos(const ChaosOptions& options, const std::string& folder);
int RunScale(ScaleOptions options, const std::string& folder);

}  // namespace ringmaster::chaos
