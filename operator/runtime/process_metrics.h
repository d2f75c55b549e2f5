#pragma once

// Metrics of the process, with the names of all Prometheus client libraries (process_*). Reads
// /proc at each scrape. Used by metrics.cc.

#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace ringmaster::runtime {

class ProcessMetrics {
 public:
  // Appends them; skips those that cannot be read.
  void Collect(std::vector<prometheus::MetricFamily>& families) const;
};

}  // namespace ringmaster::runtime
