#pragma once

// The metrics of jobs (ringmaster_*), based on prometheus-cpp. JobMetrics counts the actor's
// changes, and computes gauges at each scrape (job_changes.h, job_gauges.h). Only the leader
// exports gauges, so that sums over all operators are correct. The only label that users choose is
// the namespace of jobs, by which GPUs are counted. The series of a namespace end with its last
// job. The label is "job_namespace", because Prometheus sets "namespace" to the operator's
// namespace.

#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/job/controller/job_changes.h"
#include "operator/job/controller/job_gauges.h"
#include "operator/job/controller/observe.h"
#include "operator/job/policy/ownership.h"

namespace prometheus {
class Counter;
class Histogram;
struct MetricFamily;
class Registry;
}  // namespace prometheus

namespace ringmaster::job {

// Thread-safe.
class JobMetrics final : public JobObserver {
 public:
  // All arguments except `scope` must outlive the JobMetrics. Every counter exists from the start,
  // so that the first event is an increase.
  JobMetrics(prometheus::Registry& registry, const Clock& clock, const JobStore& jobs,
             const Scope& scope);

  void OnChange(const JobChange& change) override;
  void OnDrained(FloatSeconds took) override;

  // Appends the gauges of all jobs if `leading`. Called by a collector (Metrics::AddCollector()).
  void Collect(bool leading, std::vector<prometheus::MetricFamily>& families);

 private:
  // Constant after construction.
  const Clock& clock_;
  const JobStore& jobs_;
  const Scope scope_;
  prometheus::Histogram& submit_to_running_;
  std::map<std::string, prometheus::Histogram*> phases_;
  std::map<Restart, prometheus::Counter*> restarts_;
  std::map<std::string, prometheus::Counter*> recoveries_;
  prometheus::Histogram& recovery_;
  prometheus::Counter& steps_lost_;
  prometheus::Histogram& drain_;
  std::map<std::string, prometheus::Counter*> ended_;  // by reason

  Mutex mutex_;
  StallWatch stalls_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::job
