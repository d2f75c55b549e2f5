#include "operator/runtime/controller.h"

#include <map>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>

#include "tests/fakes/fake_clock.h"

namespace ringmaster::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::UnorderedElementsAre;

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    freshness_.Watch(kube::kPods, [this] { return pods_seen_; });
  }

  Controller Make(Reconcile reconcile) {
    return Controller(clock_, queue_, freshness_, std::move(reconcile), {.workers = 1});
  }

  FakeClock clock_;
  WorkQueue queue_{
      clock_,
      {.backoff = {.initial = milliseconds(100), .limit = milliseconds(300'000), .jitter = 0}}};
  FreshnessGate freshness_{clock_};
  std::string pods_seen_ = "1";
};

TEST_F(ControllerTest, RequeuesWhenAskedTo) {
  int calls = 0;
  Controller controller = Make([&](const std::string&) -> Result<ReconcileResult> {
    ++calls;
    return ReconcileResult{.requeue_after = seconds(10)};
  });
  queue_.Add("job");

  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_FALSE(controller.ProcessOne());
  clock_.Advance(seconds(10));
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_EQ(calls, 2);
}

TEST_F(ControllerTest, BacksOffAfterErrorsAndForgetsThemAfterSuccess) {
  bool fail = true;
  Controller controller = Make([&](const std::string&) -> Result<ReconcileResult> {
    if (fail) return Error{ErrorKind::kUnavailable, "down"};
    return ReconcileResult{};
  });
  queue_.Add("job");
  ASSERT_TRUE(controller.ProcessOne());
  EXPECT_EQ(queue_.Failures("job"), 1);
  EXPECT_FALSE(controller.ProcessOne());

  fail = false;
  clock_.Advance(milliseconds(100));
  ASSERT_TRUE(controller.ProcessOne());

  EXPECT_EQ(queue_.Failures("job"), 0);
  clock_.Advance(seconds(3600));
  EXPECT_FALSE(controller.ProcessOne());
}

TEST_F(ControllerTest, LooksAtOnceAtWhatCouldNotReachTheServerWhenItIsBack) {
  std::map<std::string, ErrorKind> errors = {{"unreached", ErrorKind::kUnavailable},
                                             {"too slow", ErrorKind::kTimeout},
                                             {"refused", ErrorKind::kForbidden}};
  std::vector<std::string> seen;
  Controller controller = Make([&](const std::string& key) -> Result<ReconcileResult> {
    seen.push_back(key);
    const auto error = errors.find(key);
    if (error != errors.end()) return Error{error->second, "failed"};
    return ReconcileResult{};
  });
  for (const auto& [key, error] : errors) queue_.Add(key);
  while (controller.ProcessOne()) {
  }
  seen.clear();
  errors.clear();

  controller.RetryUnreached();
  while (controller.ProcessOne()) {
  }
  EXPECT_THAT(seen, UnorderedElementsAre("unreached", "too slow"));

  controller.RetryUnreached();
  EXPECT_FALSE(controller.ProcessOne()) << "they succeeded";
}

TEST_F(ControllerTest, WhatPassesByItselfIsTriedAtLeastTwiceAMinute) {
  ErrorKind kind = ErrorKind::kUnavailable;
  Controller controller = Make([&](const std::string&) -> Result<ReconcileResult> {
    return Error{kind, "an admission webhook is down"};
  });
  queue_.Add("job");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(controller.ProcessOne());
    clock_.Advance(seconds(30));
  }

  kind = ErrorKind::kForbidden;
  ASSERT_TRUE(controller.ProcessOne());
  clock_.Advance(seconds(30));
  EXPECT_FALSE(controller.ProcessOne());
}

TEST_F(ControllerTest, WaitsAsLongAsTheServerAsks) {
  ErrorKind kind = ErrorKind::kThrottled;
  Controller controller = Make([&](const std::string&) -> Result<ReconcileResult> {
    return Error{kind, "slow down", {}, seconds(7)};
  });
  queue_.Add("job");
  for (const ErrorKind next : {ErrorKind::kUnavailable, ErrorKind::kThrottled}) {
    ASSERT_TRUE(controller.ProcessOne());
    clock_.Advance(seconds(6));
    EXPECT_FALSE(controller.ProcessOne());
    clock_.Advance(seconds(1));
    kind = next;
  }
  EXPECT_TRUE(controller.ProcessOne());
}

TEST_F(ControllerTest, DoesNotReconcileOnAViewOlderThanItsOwnWrites) {
  int calls = 0;
  Controller controller = Make([&](const std::string& key) -> Result<ReconcileResult> {
    ++calls;
    freshness_.Wrote(key, kube::kPods, "50");
    return ReconcileResult{};
  });
  queue_.Add("job");
  ASSERT_TRUE(controller.ProcessOne());

  queue_.Add("job");
  ASSERT_TRUE(controller.ProcessOne());
  const int while_stale = calls;
  pods_seen_ = "50";
  clock_.Advance(seconds(1));
  ASSERT_TRUE(controller.ProcessOne());

  EXPECT_EQ(while_stale, 1);
  EXPECT_EQ(calls, 2);
}

TEST_F(ControllerTest, SurvivesAnException) {
  Controller controller =
      Make([](const std::string&) -> Result<ReconcileResult> { throw std::runtime_error("bug"); });
  queue_.Add("job");

  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_EQ(queue_.Failures("job"), 1);
}

TEST(Controller, StopsWhenReconcilesInProgressHaveEnded) {
  SystemClock clock;
  WorkQueue queue(clock);
  FreshnessGate freshness(clock);
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  std::atomic<bool> go{false};
  Controller controller(clock, queue, freshness,
                        [&](const std::string&) -> Result<ReconcileResult> {
                          ++started;
                          started.notify_all();
                          go.wait(false);
                          ++ended;
                          return ReconcileResult{};
                        },
                        {.workers = 3});
  for (const char* key : {"a", "b", "c"}) queue.Add(key);
  controller.Start();
  for (int now = started; now < 3; now = started) started.wait(now);
  EXPECT_TRUE(controller.Healthy(seconds(60)));

  std::jthread releaser([&] {
    go = true;
    go.notify_all();
  });
  const bool stopped = controller.Stop(seconds(60));

  EXPECT_TRUE(stopped);
  EXPECT_EQ(ended, 3);
}

}  // namespace
}  // namespace ringmaster::runtime
