#include "operator/job/policy/status_write_policy.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "common/control/reasons.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::EventReasons;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::IsEmpty;

// Returns a job that trains, with an up-to-date status.
Scene Written() {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers(RunningWorld(3));
  scene.job.status = scene.Make().status;
  return scene;
}

// Returns the plan after the launcher's n-th answer.
Plan Ask(Scene& scene, int n) {
  control::LauncherStatus answer = RunningWorld(3);
  answer.epoch.number = 100 + n;
  answer.message = "message " + std::to_string(n);
  answer.last_recovery = control::Recovery{.epoch = answer.epoch, .from_start = true};
  answer.phase = n % 2 == 0 ? control::LauncherPhase::kStarting : control::LauncherPhase::kRunning;
  answer.failures.push_back({.rank = 1,
                             .pod_uid = "uid-worker-1",
                             .start = std::to_string(n),
                             .signal = 9,
                             .out_of_memory = control::OutOfMemory{}});
  scene.Answers(answer);
  const Plan plan = scene.Make();
  if (plan.write_status) {
    if (plan.of_reports) scene.memory.status_writes.reports.Spend(scene.now);
    scene.job.status = plan.status;
  }
  return plan;
}

TEST(StatusWritePolicy, ALauncherThatReportsAnythingElseAtEveryQuestionIsWrittenEveryFiveSeconds) {
  Scene scene = Written();
  int writes = 0;
  for (int n = 0; n < 600; ++n) {
    writes += Ask(scene, n).write_status ? 1 : 0;
    scene.now += seconds(1);
  }

  EXPECT_LE(writes, ReportBudget::kAtOnce + 600 / 5);
  EXPECT_GE(writes, 600 / 5);
}

TEST(StatusWritePolicy, AReportThatHasToWaitTakesItsEventsAlongAndIsLookedAtInTime) {
  Scene scene = Written();
  for (int n = 0; n < ReportBudget::kAtOnce; ++n) Ask(scene, n);
  scene.now += seconds(2);

  const Plan held = Ask(scene, 1001);

  EXPECT_FALSE(held.write_status);
  EXPECT_THAT(held.events, IsEmpty());
  ASSERT_TRUE(held.requeue_after.has_value());
  EXPECT_LE(*held.requeue_after, seconds(3));

  scene.now += milliseconds(2999);
  EXPECT_EQ(Ask(scene, 1001).requeue_after, milliseconds(1));
  scene.now += milliseconds(1);
  EXPECT_TRUE(Ask(scene, 1001).write_status);
}

TEST(StatusWritePolicy, AStatusThatHasToWaitTakesTheEventOfItsRunningConditionAlong) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers(RunningWorld(3));

  const Plan plan = scene.Make();

  const auto running = std::ranges::find(plan.events, api::kEventRunning, &PlannedEvent::reason);
  ASSERT_NE(running, plan.events.end());
  EXPECT_TRUE(running->of_status);
}

TEST(StatusWritePolicy, ALossThatTheOperatorSeesDoesNotWait) {
  Scene scene = Written();
  for (int n = 0; n < ReportBudget::kAtOnce; ++n) Ask(scene, n);
  // Another loss of the same Pod, or the same loss of another Pod, does not count as this loss.
  scene.job.status.failures.push_back({.pod_uid = "uid-worker-2", .reason = "NodeLost"});
  scene.job.status.failures.push_back({.pod_uid = "uid-worker-1", .reason = "Error"});
  scene.observed = SceneBuilder(scene.job)
                       .Launcher()
                       .Workers(2)
                       .With(PodBuilder::Worker(2).Ended(1, "Error"))
                       .Build();

  const Plan plan = Ask(scene, 1001);

  EXPECT_TRUE(plan.write_status);
  EXPECT_FALSE(plan.of_reports);
  EXPECT_THAT(EventReasons(plan), Contains(api::kEventWorkerReplaced));
}

TEST(StatusWritePolicy, ConditionsThatFollowTheLauncherAreOfReports) {
  struct Row {
    const char* type;
    bool of_reports;
  };
  const Row table[] = {
      {api::kWorkersReady, true},     {api::kRunning, true},    {api::kResizing, true},
      {api::kProtected, true},        {api::kRestored, true},   {api::kReconciling, true},
      {api::kCreated, false},         {api::kSuspended, false}, {api::kStalled, false},
      {api::kNetworkIsolated, false},
  };
  for (const Row& row : table) {
    api::TrainingJobStatus old;
    old.conditions = {{.type = row.type, .message = "before"}};
    Plan plan;
    plan.status = old;
    plan.status.conditions.front().message = "after";

    DecideStatusWrite(old, {}, seconds(1), Clock::Time(seconds(1)), plan);

    EXPECT_TRUE(plan.write_status) << row.type;
    EXPECT_EQ(plan.of_reports, row.of_reports) << row.type;
  }
}

TEST(StatusWritePolicy, FailuresOfRanksAreOfReportsAndThoseOfPodsAreNot) {
  struct Row {
    api::Failure failure;
    bool of_reports;
  };
  const Row table[] = {
      {{.pod_uid = "a", .reason = "RankFailed"}, true},
      {{.pod_uid = "a", .start = "n-1", .reason = "OOMKilled"}, true},
      {{.pod_uid = "a", .reason = "OOMKilled"}, false},
  };
  for (const Row& row : table) {
    Plan plan;
    plan.status.failures = {row.failure};

    DecideStatusWrite({}, {}, seconds(1), Clock::Time(seconds(1)), plan);

    EXPECT_EQ(plan.of_reports, row.of_reports) << row.failure.reason << row.failure.start;
  }
}

TEST(StatusWritePolicy, AnEndDoesNotWait) {
  Scene scene = Written();
  for (int n = 0; n < ReportBudget::kAtOnce; ++n) Ask(scene, n);
  control::Verdict verdict;
  verdict.reason = control::kReasonRankFailed;
  scene.observed =
      SceneBuilder(scene.job).With(PodBuilder::Launcher(1).EndedWith(verdict)).Workers(3).Build();

  EXPECT_TRUE(Ask(scene, 1001).write_status);
}

TEST(StatusWritePolicy, ALossThatIsWrittenDownHoldsNoLaterReportUp) {
  Scene scene = Written();
  scene.job.status.failures.push_back({.pod_uid = "uid-worker-2", .reason = "NodeLost"});

  for (int n = 0; n < ReportBudget::kAtOnce; ++n) EXPECT_TRUE(Ask(scene, n).of_reports) << n;

  EXPECT_FALSE(Ask(scene, 1001).write_status);
}

}  // namespace
}  // namespace ringmaster::job
