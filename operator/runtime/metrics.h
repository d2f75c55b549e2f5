#pragma once

// The operator's metrics, under the names that Kubernetes dashboards know (workqueue_*,
// rest_client_*, controller_runtime_*, leader_election_*), on prometheus-cpp. Implements the
// observers of the machinery; main.cc hands them out and serves Text() as /metrics. No object names
// as labels.

#include <functional>
#include <memory>
#include <string>

#include "operator/http/http_client.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/reflector.h"
#include "operator/runtime/work_queue.h"

namespace prometheus {
class Registry;
}

namespace ringmaster::runtime {

// Thread-safe. Outlives everything it observes, except what is given to OnScrape.
class Metrics {
 public:
  explicit Metrics(
      const std::string& controller);  // the label of workqueue_* and controller_runtime_*
  ~Metrics();

  WorkQueueObserver& queue();
  ControllerObserver& controller();
  ReflectorObserver& reflector();
  // For HttpClientOptions::on_answer.
  std::function<void(http::Method, int)> OnAnswer();

  void SetLeader(bool leading);

  // Called before each Text(), to set what is only known at that moment. `queue` outlives the
  // metrics.
  void WatchQueue(const WorkQueue& queue);

  // For metrics of other modules, named ringmaster_*.
  prometheus::Registry& registry();

  // The text exposition format.
  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::runtime
