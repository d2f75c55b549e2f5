#pragma once

// Metrics of the process (process_*), with the names that all Prometheus client libraries use.
// Reads /proc at each scrape. Used by metrics.cc.

#include <chrono>
#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace ringmaster::runtime {

class ProcessMetrics {
 public:
  // Appends the metrics. Skips metrics that cannot be read.
  void Collect(std::vector<prometheus::MetricFamily>& families) const;

 private:
  // The kernel's start time of the process stays when the operator executes its program again.
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace ringmaster::runtime
