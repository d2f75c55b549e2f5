#pragma once

// Metrics of the process (process_*), with the names that all Prometheus client libraries use.
// Reads /proc at each scrape. Used by metrics.cc.

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace ringmaster::runtime {

class ProcessMetrics {
 public:
  // Appends the metrics. Skips metrics that cannot be read.
  void Collect(std::vector<prometheus::MetricFamily>& families) const;
};

}  // namespace ringmaster::runtime
