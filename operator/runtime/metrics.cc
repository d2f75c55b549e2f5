#include "operator/runtime/metrics.h"

#include <atomic>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "operator/runtime/process_metrics.h"

namespace ringmaster::runtime {
namespace {

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

const prometheus::Histogram::BucketBoundaries kLatencyBuckets{
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

prometheus::Counter& Counter(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
}

prometheus::Gauge& Gauge(prometheus::Registry& registry, const char* name, const char* help,
                         const prometheus::Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}

prometheus::Histogram& Histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const prometheus::Labels& labels) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                   kLatencyBuckets);
}

class QueueMetrics final : public WorkQueueObserver {
 public:
  QueueMetrics(prometheus::Registry& registry, const prometheus::Labels& labels)
      : depth_(Gauge(registry, "workqueue_depth", "Keys waiting in the queue", labels)),
        adds_(Counter(registry, "workqueue_adds_total", "Keys added to the queue", labels)),
        retries_(Counter(registry, "workqueue_retries_total", "Keys added again after a failure",
                         labels)),
        waited_(Histogram(registry, "workqueue_queue_duration_seconds",
                          "Time that keys waited in the queue, in seconds", labels)),
        worked_(Histogram(registry, "workqueue_work_duration_seconds",
                          "Processing time of keys, in seconds", labels)) {}

  void OnAdded() override { adds_.Increment(); }
  void OnRetry() override { retries_.Increment(); }
  void OnDepth(std::size_t depth) override { depth_.Set(static_cast<double>(depth)); }
  void OnPopped(std::chrono::nanoseconds waited) override { waited_.Observe(Seconds(waited)); }
  void OnDone(std::chrono::nanoseconds worked) override { worked_.Observe(Seconds(worked)); }

 private:
  prometheus::Gauge& depth_;
  prometheus::Counter& adds_;
  prometheus::Counter& retries_;
  prometheus::Histogram& waited_;
  prometheus::Histogram& worked_;
};

class ReconcileMetrics final : public ControllerObserver {
 public:
  ReconcileMetrics(prometheus::Registry& registry, const std::string& controller)
      : took_(Histogram(registry, "controller_runtime_reconcile_time_seconds",
                        "Duration of a reconcile", {{"controller", controller}})),
        errors_(Counter(registry, "controller_runtime_reconcile_errors_total",
                        "Reconciles that failed", {{"controller", controller}})),
        panics_(Counter(registry, "controller_runtime_reconcile_panics_total",
                        "Reconciles that ended with an exception", {{"controller", controller}})),
        active_(Gauge(registry, "controller_runtime_active_workers", "Reconciles in progress",
                      {{"controller", controller}})),
        most_(Gauge(registry, "controller_runtime_max_concurrent_reconciles",
                    "Maximum number of concurrent reconciles", {{"controller", controller}})),
        success_(Total(registry, controller, "success")),
        requeue_after_(Total(registry, controller, "requeue_after")),
        error_(Total(registry, controller, "error")) {}

  void OnWorkers(int most) override { most_.Set(most); }
  void OnStarted() override { active_.Increment(); }
  void OnException() override { panics_.Increment(); }
  void OnReconciled(Outcome outcome, std::chrono::nanoseconds took) override {
    active_.Decrement();
    took_.Observe(Seconds(took));
    switch (outcome) {
      case Outcome::kSuccess:
        success_.Increment();
        return;
      case Outcome::kRequeueAfter:
        requeue_after_.Increment();
        return;
      case Outcome::kError:
        error_.Increment();
        errors_.Increment();
        return;
    }
  }

 private:
  static prometheus::Counter& Total(prometheus::Registry& registry, const std::string& controller,
                                    const char* result) {
    return Counter(registry, "controller_runtime_reconcile_total", "Reconciles by result",
                   {{"controller", controller}, {"result", result}});
  }

  prometheus::Histogram& took_;
  prometheus::Counter& errors_;
  prometheus::Counter& panics_;
  prometheus::Gauge& active_;
  prometheus::Gauge& most_;
  prometheus::Counter& success_;
  prometheus::Counter& requeue_after_;
  prometheus::Counter& error_;
};

class WatchMetrics final : public ReflectorObserver {
 public:
  explicit WatchMetrics(prometheus::Registry& registry)
      : events_(prometheus::BuildCounter()
                    .Name("ringmaster_watch_events_total")
                    .Help("Events received by watches")
                    .Register(registry)),
        lists_(prometheus::BuildCounter()
                   .Name("ringmaster_lists_total")
                   .Help("Number of full lists from which a cache was filled")
                   .Register(registry)),
        failures_(prometheus::BuildCounter()
                      .Name("ringmaster_watch_failures_total")
                      .Help("Lists and watches that ended with an error")
                      .Register(registry)) {}

  void OnEvent(const kube::Resource& resource) override { Of(events_, resource).Increment(); }
  void OnListed(const kube::Resource& resource) override { Of(lists_, resource).Increment(); }
  void OnFailure(const kube::Resource& resource, ErrorKind kind) override {
    failures_.Add({{"resource", resource.FullName()}, {"kind", ToString(kind)}}).Increment();
  }

 private:
  static prometheus::Counter& Of(prometheus::Family<prometheus::Counter>& family,
                                 const kube::Resource& resource) {
    return family.Add({{"resource", resource.FullName()}});
  }

  prometheus::Family<prometheus::Counter>& events_;
  prometheus::Family<prometheus::Counter>& lists_;
  prometheus::Family<prometheus::Counter>& failures_;
};

class RequestMetrics {
 public:
  explicit RequestMetrics(prometheus::Registry& registry)
      : requests_(prometheus::BuildCounter()
                      .Name("rest_client_requests_total")
                      .Help("Requests to the API server by status code and method")
                      .Register(registry)),
        took_(prometheus::BuildHistogram()
                  .Name("rest_client_request_duration_seconds")
                  .Help("Latency of requests to the API server, by verb; for watches, until the "
                        "first byte")
                  .Register(registry)) {}

  void Count(const http::Answered& answered) {
    const std::string code = answered.status == 0 ? "<error>" : std::to_string(answered.status);
    requests_.Add({{"code", code}, {"method", ToString(answered.method)}}).Increment();
    took_.Add({{"verb", ToString(answered.method)}}, kLatencyBuckets)
        .Observe(Seconds(answered.took));
  }

 private:
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& took_;
};

}  // namespace

struct Metrics::Impl {
  explicit Impl(const std::string& controller)
      : queue(registry, {{"name", controller}}),
        reconcile(registry, controller),
        watch(registry),
        requests(registry),
        dropped_events(prometheus::BuildCounter()
                           .Name("ringmaster_events_dropped_total")
                           .Help("Events about jobs that were dropped")
                           .Register(registry)
                           .Add({})),
        leader(Gauge(registry, "leader_election_master_status", "1 if this process is the leader",
                     {{"name", controller}})),
        unfinished(Gauge(registry, "workqueue_unfinished_work_seconds",
                         "Total processing time of the keys in progress, in seconds",
                         {{"name", controller}})),
        longest(Gauge(registry, "workqueue_longest_running_processor_seconds",
                      "Longest processing time of a key in progress, in seconds",
                      {{"name", controller}})) {
    const prometheus::Labels version{{"version", RINGMASTER_VERSION}};
    Gauge(registry, "ringmaster_build_info", "Always 1; the version is the label", version).Set(1);
  }

  prometheus::Registry registry;
  QueueMetrics queue;
  ReconcileMetrics reconcile;
  WatchMetrics watch;
  RequestMetrics requests;
  prometheus::Counter& dropped_events;
  prometheus::Gauge& leader;
  prometheus::Gauge& unfinished;
  prometheus::Gauge& longest;
  ProcessMetrics process;
  std::vector<Collector> collectors;
  std::atomic<const WorkQueue*> watched{nullptr};
};

Metrics::Metrics(const std::string& controller) : impl_(std::make_unique<Impl>(controller)) {}
Metrics::~Metrics() = default;

WorkQueueObserver& Metrics::queue() { return impl_->queue; }
ControllerObserver& Metrics::controller() { return impl_->reconcile; }
ReflectorObserver& Metrics::reflector() { return impl_->watch; }
prometheus::Registry& Metrics::registry() { return impl_->registry; }
void Metrics::SetLeader(bool leading) { impl_->leader.Set(leading ? 1 : 0); }
void Metrics::WatchQueue(const WorkQueue& queue) { impl_->watched = &queue; }

void Metrics::AddCollector(Collector collector) {
  impl_->collectors.push_back(std::move(collector));
}

std::function<void(const http::Answered&)> Metrics::OnAnswer() {
  return [impl = impl_.get()](const http::Answered& answered) { impl->requests.Count(answered); };
}

std::function<void()> Metrics::OnDroppedEvent() {
  return [counter = &impl_->dropped_events] { counter->Increment(); };
}

std::string Metrics::Text() const {
  if (const WorkQueue* queue = impl_->watched) {
    impl_->unfinished.Set(Seconds(queue->TotalInProgress()));
    impl_->longest.Set(Seconds(queue->LongestInProgress()));
  }
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  impl_->process.Collect(families);
  for (const Collector& collector : impl_->collectors) collector(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace ringmaster::runtime
