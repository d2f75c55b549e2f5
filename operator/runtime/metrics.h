#pragma once

// The operator's metrics, based on prometheus-cpp, with the names that Kubernetes dashboards expect
// (workqueue_*, rest_client_*, controller_runtime_*, leader_election_*). Implements the observer
// interfaces of this folder; main.cc passes them on and serves Text() as /metrics. Labels contain
// no object names.

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

// Thread-safe. Outlives everything it observes.
class Metrics {
 public:
  explicit Metrics(
      const std::string& controller);  // the label of workqueue_* and controller_runtime_*
  ~Metrics();

  WorkQueueObserver& queue();
  ControllerObserver& controller();
  ReflectorObserver& reflector();
  // For HttpClientOptions::on_answer.
  std::function<void(const http::Answered&)> OnAnswer();
  // For EventRecorderOptions::on_dropped.
  std::function<void()> OnDroppedEvent();

  void SetLeader(bool leading);

  // The queue whose work in progress each Text() measures; alive whenever Text() is called.
  void WatchQueue(const WorkQueue& queue);

  // For metrics of other modules, named ringmaster_*.
  prometheus::Registry& registry();

  // Appends values that are computed at each scrape. Called by each Text(), by several threads at
  // once; must answer from memory.
  using Collector = std::function<void(std::vector<prometheus::MetricFamily>&)>;
  // REQUIRES: before the first Text(). Its references are valid whenever Text() is called.
  void AddCollector(Collector collector);

  // The text exposition format.
  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::runtime
