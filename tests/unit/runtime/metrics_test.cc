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
  metrics.controller().OnReconciled(ControllerObserver::Outcome::kError,
                                    std::chrono::milliseconds(5));
  metrics.OnAnswer()(http::Method::kPost, 201);
  metrics.OnAnswer()(http::Method::kGet, 0);
  metrics.SetLeader(true);
  metrics.reflector().OnFailure(kube::kPods, ErrorKind::kExpired);

  const std::string text = metrics.Text();

  for (const char* line :
       {"workqueue_adds_total{name=\"trainingjob\"} 2", "workqueue_depth{name=\"trainingjob\"} 1",
        "workqueue_unfinished_work_seconds{name=\"trainingjob\"} 2",
        "controller_runtime_reconcile_total{controller=\"trainingjob\",result=\"error\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"trainingjob\"} 1",
        "rest_client_requests_total{code=\"201\",method=\"POST\"} 1",
        "rest_client_requests_total{code=\"<error>\",method=\"GET\"} 1",
        "leader_election_master_status{name=\"trainingjob\"} 1",
        "ringmaster_watch_failures_total{kind=\"expired\",resource=\"pods\"} 1"}) {
    EXPECT_TRUE(Has(text, line)) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace ringmaster::runtime
