#pragma once

// The operator's metrics, based on prometheus-cpp, with the names that Kubernetes dashboards expect
// (workqueue_*, rest_client_*, controller_runtime_*, leader_election_*). Implements the observer
// interfaces of this folder, which main.cc sets. main.cc also serves Text() as /metrics. Labels do
// not contain object names.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operator/http/http_client.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/reflector.h"
#include "operator/runtime/work_queue.h"

namespace prometheus {
struct MetricFamily;
class Registry;
}  // namespace prometheus

namespace ringmaster::runtime {

// The Metrics must outlive the objects that it observes. Thread-safe.
class Metrics {
 public:
  explicit Metrics(
      const std::string& controller);  // the label of workqueue_* and controller_runtime_*
  ~Metrics();

  WorkQueueObserver& queue();
  ControllerObserver& controller();
  ReflectorObserver& reflector();
  // Returns the function for HttpClientOptions::on_answer.
  std::function<void(const http::Answered&)> OnAnswer();
  // Returns the function for EventRecorderOptions::on_dropped.
  std::function<void()> OnDroppedEvent();

  void SetLeader(bool leading);

  // Sets the queue whose work in progress Text() measures. It must exist when Text() is called.
  void WatchQueue(const WorkQueue& queue);

  // Returns the registry for the metrics of other modules (ringmaster_*).
  prometheus::Registry& registry();

  // Appends values that are computed at each scrape. Text() calls it, possibly on several threads
  // in parallel, so it must not block.
  using Collector = std::function<void(std::vector<prometheus::MetricFamily>&)>;
  // Adds a collector, whose references must be valid in Text(). REQUIRES: no call of Text() before.
  void AddCollector(Collector collector);

  // Returns all metrics in the text exposition format.
  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::runtime
