#pragma once

// Formats the ranks' step times as Prometheus metrics for GET /metrics (api_server.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringmaster::launcher {

struct RankTimes {
  std::string pod{};
  std::string node{};
  int rank = 0;
  int64_t step = 0;         // steps applied
  double step_seconds = 0;  // duration of its newest step
  double own_seconds = 0;   // smoothed duration of its own part of a step; 0: none yet
  bool straggler = false;
};

struct JobTimes {
  std::string job;  // namespace/name
  int64_t epoch = 0;
  std::optional<double> median_step_seconds;
  std::vector<RankTimes> ranks;
};

// Formats the times in Prometheus' text exposition format.
std::string MetricsText(const JobTimes& times);

}  // namespace ringmaster::launcher
