#include "operator/runtime/metrics.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"

namespace ringmaster::runtime {
namespace {

bool Has(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, UsesTheNamesThatDashboardsKnow) {
  FakeClock clock;
  Metrics metrics("trainingjob");
  WorkQueue queue(clock, {}, &metrics.queue());
  metrics.WatchQueue(queue);
  queue.Add("a");
  queue.Add("b");
  queue.TryPop();
  clock.Advance(std::chrono::seconds(2));
  metrics.controller().OnWorkers(64);
  metrics.controller().OnStarted();
  metrics.controller().OnStarted();
  metrics.controller().OnException();
  metrics.controller().OnReconciled(ControllerObserver::Outcome::kError,
                                    std::chrono::milliseconds(5));
  metrics.OnAnswer()({http::Method::kPost, 201, std::chrono::milliseconds(30)});
  metrics.OnAnswer()({http::Method::kGet, 0, std::chrono::milliseconds(0)});
  metrics.SetLeader(true);
  metrics.reflector().OnFailure(kube::kPods, ErrorKind::kExpired);

  const std::string text = metrics.Text();

  for (const char* line :
       {"workqueue_adds_total{name=\"trainingjob\"} 2", "workqueue_depth{name=\"trainingjob\"} 1",
        "workqueue_unfinished_work_seconds{name=\"trainingjob\"} 2",
        "controller_runtime_reconcile_total{controller=\"trainingjob\",result=\"error\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"trainingjob\"} 1",
        "rest_client_requests_total{code=\"201\",method=\"POST\"} 1",
        "controller_runtime_reconcile_panics_total{controller=\"trainingjob\"} 1",
        "controller_runtime_active_workers{controller=\"trainingjob\"} 1",
        "controller_runtime_max_concurrent_reconciles{controller=\"trainingjob\"} 64",
        "rest_client_request_duration_seconds_bucket{verb=\"POST\",le=\"0.025\"} 0",
        "rest_client_request_duration_seconds_bucket{verb=\"POST\",le=\"0.05\"} 1",
        "rest_client_requests_total{code=\"<error>\",method=\"GET\"} 1",
        "leader_election_master_status{name=\"trainingjob\"} 1",
        "ringmaster_watch_failures_total{kind=\"expired\",resource=\"pods\"} 1"}) {
    EXPECT_TRUE(Has(text, line)) << line << "\n" << text;
  }
}

double ValueOf(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + 1 + name.size()));
}

TEST(Metrics, SpeaksOfTheProcessAsEveryClientLibraryDoes) {
  const std::string text = Metrics("trainingjob").Text();

  EXPECT_GT(ValueOf(text, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(ValueOf(text, "process_virtual_memory_bytes"),
            ValueOf(text, "process_resident_memory_bytes"));
  EXPECT_GE(ValueOf(text, "process_cpu_seconds_total"), 0);
  EXPECT_GE(ValueOf(text, "process_open_fds"), 3);
  EXPECT_GE(ValueOf(text, "process_max_fds"), ValueOf(text, "process_open_fds"));
}

// An operator that lost its lease executes its program again in the same process.
TEST(Metrics, AProgramThatIsExecutedAgainHasANewStartTime) {
  const std::chrono::duration<double> executed =
      std::chrono::system_clock::now().time_since_epoch();

  EXPECT_GE(ValueOf(Metrics("trainingjob").Text(), "process_start_time_seconds"), executed.count());
}

}  // namespace
}  // namespace ringmaster::runtime
