#include "operator/job/controller/act_result.h"

#include <gtest/gtest.h>

namespace ringmaster::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A job that is reconciled, its plan, and the result of the plan's actions.
struct Scene {
  std::optional<milliseconds> ApplyResult() {
    const auto again = job::ApplyResult(result, job, plan, now, memory);
    EXPECT_TRUE(again.ok());
    return again.ok() ? *again : std::nullopt;
  }

  api::TrainingJob job;
  Plan plan{.requeue_after = seconds(30)};
  Clock::Time now = Clock::Time(std::chrono::hours(1));
  JobMemory memory;
  ActResult result;
};

Refusal Quota(Clock::Time retry_at) {
  return {.cause = RefusalCause::kQuotaExceeded,
          .message = "too many",
          .failures = 1,
          .retry_at = retry_at};
}

TEST(ActResult, WithoutActionsTheMemoryStaysAndThePlanDecidesWhenToReconcileAgain) {
  Scene scene;
  scene.memory.pin = RunPin{.uid = "pin", .revision = "r"};
  scene.memory.pin_sought = true;
  scene.memory.unused_term = 3;
  scene.memory.admitted = {"10.0.0.1"};
  scene.memory.isolation = IsolationCheck{.isolated = true};

  EXPECT_EQ(scene.ApplyResult(), seconds(30));

  EXPECT_EQ(scene.memory.pin->uid, "pin");
  EXPECT_TRUE(scene.memory.pin_sought);
  EXPECT_EQ(scene.memory.unused_term, 3);
  EXPECT_EQ(scene.memory.admitted, std::vector<std::string>{"10.0.0.1"});
  EXPECT_TRUE(scene.memory.isolation->isolated);
  EXPECT_FALSE(scene.memory.status_writes.progress);
}

TEST(ActResult, ARefusalIsRetriedAtOnceForItsConditionAndThenAtItsTime) {
  Scene scene;
  scene.result.refusal = Quota(scene.now + seconds(5));

  EXPECT_EQ(scene.ApplyResult(), milliseconds(10));
  EXPECT_EQ(scene.memory.refusal->cause, RefusalCause::kQuotaExceeded);
  EXPECT_EQ(scene.ApplyResult(), seconds(5));
}

TEST(ActResult, ARefusalComesBeforeAnErrorAndAJobThatIsGoneBeforeBoth) {
  Scene scene;
  scene.result.refusal = Quota(scene.now);
  scene.result.error = Error{ErrorKind::kUnavailable, "busy"};
  EXPECT_EQ(scene.ApplyResult(), milliseconds(10));

  Scene gone = scene;
  gone.memory = {};
  gone.result.job_gone = true;
  EXPECT_EQ(gone.ApplyResult(), seconds(30));
  EXPECT_FALSE(gone.memory.refusal);

  scene.result.refusal.reset();
  EXPECT_EQ(ApplyResult(scene.result, scene.job, scene.plan, scene.now, scene.memory).error().kind,
            ErrorKind::kUnavailable);
}

TEST(ActResult, CreatesThatFailForAMinuteAreReportedAndRetriedLikeARefusal) {
  Scene scene;
  const auto fails = [&] {
    return !ApplyResult(scene.result, scene.job, scene.plan, scene.now, scene.memory).ok();
  };
  const ActResult failed{
      .error = Error{ErrorKind::kThrottled, "HTTP 429: busy", "", seconds(5)},
      .create_error = Error{ErrorKind::kThrottled, "HTTP 429: busy", "", seconds(5)}};
  scene.result = failed;
  EXPECT_TRUE(fails());
  scene.now += seconds(59);
  EXPECT_TRUE(fails());
  EXPECT_FALSE(scene.memory.refusal);

  scene.now += seconds(1);
  EXPECT_EQ(scene.ApplyResult(), milliseconds(10)) << "for the condition";
  ASSERT_TRUE(scene.memory.refusal);
  EXPECT_EQ(scene.memory.refusal->cause, RefusalCause::kOther);
  EXPECT_EQ(scene.memory.refusal->message, "HTTP 429: busy");
  EXPECT_EQ(scene.memory.refusal->retry_at, scene.now + seconds(5)) << "as the server asks";

  scene.result = {};
  EXPECT_EQ(scene.ApplyResult(), seconds(30)) << "the plan creates nothing before the retry";
  scene.result = failed;
  EXPECT_FALSE(fails());
  EXPECT_EQ(scene.memory.refusal->failures, 2);

  scene.result = {};
  scene.plan.create_services = true;
  (void)scene.ApplyResult();
  EXPECT_FALSE(scene.memory.refusal) << "the creates have succeeded";
  scene.result = failed;
  EXPECT_TRUE(fails()) << "a later failure is another one";
}

TEST(ActResult, CreatesOfWhichSomeSucceedDoNotCountAsFailing) {
  Scene scene;
  scene.result.error = scene.result.create_error = Error{ErrorKind::kConflict, "HTTP 409: changed"};
  scene.result.created = true;

  for (int minute = 0; minute < 3; ++minute) {
    EXPECT_FALSE(ApplyResult(scene.result, scene.job, scene.plan, scene.now, scene.memory).ok());
    scene.now += std::chrono::minutes(1);
  }

  EXPECT_FALSE(scene.memory.refusal);
}

TEST(ActResult, ARefusalBetweenFailedCreatesStartsTheirMinuteAnew) {
  Scene scene;
  scene.result.error = scene.result.create_error = Error{ErrorKind::kConflict, "HTTP 409: changed"};
  const auto fails = [&] {
    return !ApplyResult(scene.result, scene.job, scene.plan, scene.now, scene.memory).ok();
  };
  ASSERT_TRUE(fails());
  scene.now += seconds(61);
  scene.result.refusal = Quota(scene.now);
  ASSERT_FALSE(fails());

  scene.result.refusal.reset();

  EXPECT_TRUE(fails());
  EXPECT_EQ(scene.memory.refusal->cause, RefusalCause::kQuotaExceeded);
}

TEST(ActResult, AWriteOfReportsUsesTheirBudgetAndProgressHasItsTime) {
  Scene scene;
  scene.plan.of_reports = true;
  scene.plan.status.progress.emplace();
  scene.result.status_written = scene.now;

  for (int i = 0; i < ReportBudget::kAtOnce; ++i) (void)scene.ApplyResult();

  EXPECT_GT(scene.memory.status_writes.reports.Wait(scene.now), milliseconds(0));
  EXPECT_EQ(scene.memory.status_writes.progress, scene.now);
}

TEST(ActResult, APinWhoseNameAnotherObjectHasIsLookedUpAgain) {
  Scene scene;
  scene.memory.pin = RunPin{.uid = "pin", .revision = "r"};
  scene.memory.pin_sought = true;

  scene.result.pin_changed = true;
  (void)scene.ApplyResult();
  EXPECT_TRUE(scene.memory.pin);
  EXPECT_FALSE(scene.memory.pin_sought);

  scene.result = {};
  scene.result.unpinned = true;
  (void)scene.ApplyResult();
  EXPECT_FALSE(scene.memory.pin);
}

}  // namespace
}  // namespace ringmaster::job
