#pragma once

// The two experiments on one job of real processes: strike it, or resize it. Both print a line per
// event and, last, one JSON object; both end with an audit of the ranks' logs.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/chaos/schedule.h"
#include "bench/chaos/stage.h"

namespace ringmaster::chaos {

struct ChaosOptions {
  std::vector<FaultKind> kinds;
  int count = 5;
  double every = 2;  // seconds from one strike to the next, or longer if the world is not whole
  uint64_t seed = 1;
  StageOptions stage;
};

struct ScaleOptions {
  std::vector<int> sizes{2, 4, 2};
  StageOptions stage;
};

// Exit codes of the program: 0, or 1 with the reason on standard error. `folder` gets the logs.
int RunChaos(const ChaosOptions& options, const std::string& folder);
int RunScale(ScaleOptions options, const std::string& folder);

}  // namespace ringmaster::chaos
