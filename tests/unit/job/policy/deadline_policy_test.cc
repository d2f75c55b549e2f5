#include "operator/job/policy/deadline_policy.h"

#include <gmock/gmock.h>

#include "operator/api/conditions.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::EventReasons;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPresent[] = "2026-11-20T10:00:00Z";  // the current time of scenes

api::TrainingJob StartedJob(const api::RunPolicy& policy, int64_t epoch = 0) {
  api::TrainingJob job = JobBuilder()
                             .Replicas(2)
                             .Term(1)
                             .Condition(api::kCreated, "PodsCreated")
                             .RunPolicy(policy)
                             .StartedAt(kPresent)
                             .Build();
  job.status.epoch = epoch;
  return job;
}

api::RunPolicy Deadline(int seconds) {
  api::RunPolicy policy;
  policy.active_deadline = std::chrono::seconds(seconds);
  return policy;
}

api::RunPolicy StartTimeout(int seconds) {
  api::RunPolicy policy;
  policy.start_timeout = std::chrono::seconds(seconds);
  return policy;
}

std::string FailedReason(const Plan& plan) {
  const api::Condition* failed = api::FindCondition(plan.status.conditions, api::kFailed);
  return failed == nullptr ? "" : failed->reason;
}

std::string FailedMessage(const Plan& plan) {
  return api::FindCondition(plan.status.conditions, api::kFailed)->message;
}

TEST(DeadlinePolicy, TheClockStartsWithTheFirstLookAtAJobThatMayRun) {
  const api::TrainingJob job = JobBuilder().RunPolicy(Deadline(60)).Build();

  const Plan plan = Scene{.job = job, .observed = SceneBuilder(job).Build()}.Make();

  EXPECT_EQ(plan.status.start_time, kPresent);
}

TEST(DeadlinePolicy, AJobWithoutClocksNeverAsksToBeLookedAtAgain) {
  const api::TrainingJob job = StartedJob({}, 1);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  scene.Answers(RunningWorld(2));
  scene.wall_now += std::chrono::hours(10'000);

  const Plan plan = scene.Make();

  EXPECT_FALSE(plan.requeue_after.has_value());
  EXPECT_EQ(FailedReason(plan), "");
}

TEST(DeadlinePolicy, AJobFailsWhenItsDeadlineHasPassed) {
  const api::TrainingJob job = StartedJob(Deadline(3600), 1);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  PodView launcher = *scene.observed.launcher;
  launcher.resource_version = "41";
  scene.observed.launcher = std::make_shared<const PodView>(launcher);
  scene.Answers(RunningWorld(2));

  scene.wall_now += std::chrono::seconds(3590);
  const Plan before = scene.Make();
  scene.wall_now += std::chrono::milliseconds(9999);
  const Plan just_before = scene.Make();
  scene.wall_now += std::chrono::milliseconds(1);
  const Plan after = scene.Make();
  scene.memory.ended_since = scene.now - std::chrono::seconds(5);
  scene.job.status = after.status;
  const Plan cleaned = scene.Make();

  EXPECT_EQ(FailedReason(before), "");
  EXPECT_EQ(before.requeue_after, std::chrono::seconds(10));
  EXPECT_EQ(FailedReason(just_before), "");
  EXPECT_EQ(FailedReason(after), api::kReasonDeadlineExceeded);
  EXPECT_THAT(FailedMessage(after), HasSubstr("3600 s of its start at 2026-11-20T10:00:00Z"));
  EXPECT_THAT(EventReasons(after), ElementsAre(api::kReasonDeadlineExceeded));
  EXPECT_FALSE(after.order.has_value());
  EXPECT_FALSE(before.end_launcher.has_value());
  ASSERT_TRUE(after.end_launcher.has_value());
  EXPECT_EQ(after.end_launcher->uid, scene.observed.launcher->uid);
  EXPECT_EQ(after.end_launcher->resource_version, "41")
      << "a Pod that changed since may have ended with a verdict";
  EXPECT_EQ(cleaned.deletes.size(), 3u);
}

TEST(DeadlinePolicy, ALauncherThatIsGoingAlreadyIsNotEndedAgain) {
  const api::TrainingJob job = StartedJob(Deadline(1), 1);
  Scene scene{.job = job,
              .observed = SceneBuilder(job).With(PodBuilder::Launcher(1).Deleting()).Build()};
  scene.wall_now += std::chrono::hours(1);

  const Plan plan = scene.Make();

  EXPECT_EQ(FailedReason(plan), api::kReasonDeadlineExceeded);
  EXPECT_FALSE(plan.end_launcher.has_value());
}

TEST(DeadlinePolicy, AVerdictThatIsThereComesBeforeTheDeadline) {
  const api::TrainingJob job = StartedJob(Deadline(1), 1);
  control::Verdict verdict;
  verdict.succeeded = true;
  Scene scene{
      .job = job,
      .observed = SceneBuilder(job).With(PodBuilder::Launcher(1).EndedWith(verdict)).Build()};
  scene.wall_now += std::chrono::hours(1);

  const Plan plan = scene.Make();

  EXPECT_TRUE(api::IsTrue(plan.status.conditions, api::kSucceeded));
}

struct Missing {
  const char* name;
  PodBuilder worker;
  std::vector<control::PreflightFault> faults;
  std::string said;
};

TEST(DeadlinePolicy, AStartThatTakesTooLongReportsWhatIsMissing) {
  const std::vector<Missing> table = {
      {"no node",
       PodBuilder::Worker(1).Unschedulable(
           "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
       {},
       "Unschedulable: digits-worker-1 cannot be scheduled: 0/3 nodes are available: 3 "
       "Insufficient nvidia.com/gpu; the Pod requests nvidia.com/gpu: ask the platform team how "
       "much the largest node has (kubectl describe nodes shows it); if that is less, lower "
       "spec.worker.gpus, delete the job and apply it again; otherwise wait until enough is free"},
      {"no image",
       PodBuilder::Worker(1).Waiting("ImagePullBackOff", "Back-off pulling image \"x\""),
       {},
       "ImagePullBackOff: digits-worker-1 on node node-1 does not start: Back-off pulling image"},
      {"a host that fails its checks",
       PodBuilder::Worker(1).OnNode("node-7"),
       {{"gpu", "no GPU found"}},
       "PreflightFailed: digits-worker-1 on node node-7 failed its gpu check: no GPU found"},
  };
  for (const Missing& row : table) {
    const api::TrainingJob job = StartedJob(StartTimeout(600));
    Scene scene{
        .job = job,
        .observed =
            SceneBuilder(job).Launcher().With(PodBuilder::Worker(0)).With(row.worker).Build()};
    control::LauncherStatus waiting = RunningWorld(2);
    waiting.phase = control::LauncherPhase::kWaitingForAgents;
    waiting.epoch = {};
    waiting.world_size = 0;
    for (control::WorkerReport& worker : waiting.workers) worker.member = false;
    waiting.workers[1].ready = false;
    waiting.workers[1].faults = row.faults;
    scene.Answers(waiting);

    scene.wall_now += std::chrono::seconds(599);
    const Plan before = scene.Make();
    scene.wall_now += std::chrono::seconds(1);
    const Plan after = scene.Make();

    EXPECT_EQ(FailedReason(before), "") << row.name;
    EXPECT_LE(before.requeue_after, std::chrono::seconds(1)) << row.name;
    EXPECT_EQ(FailedReason(after), api::kReasonStartTimeout) << row.name;
    EXPECT_THAT(FailedMessage(after), HasSubstr("no ranks were started within 600 s")) << row.name;
    EXPECT_THAT(FailedMessage(after), HasSubstr(row.said)) << row.name;
    EXPECT_THAT(EventReasons(after), ElementsAre(api::kReasonStartTimeout)) << row.name;
  }
}

// An operator that restarts after an outage may not know that training has begun.
TEST(DeadlinePolicy, ALauncherIsAskedBeforeAStartCountsAsTooLate) {
  const api::TrainingJob job = StartedJob(StartTimeout(600));
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  scene.wall_now += std::chrono::hours(1);

  const Plan asks = scene.Make();
  EXPECT_EQ(FailedReason(asks), "");
  EXPECT_TRUE(asks.order.has_value());
  EXPECT_LE(asks.requeue_after, std::chrono::seconds(1));

  control::LauncherStatus trains = RunningWorld(2);
  trains.progress = control::Progress{.step = 1};
  scene.Answers(trains);
  EXPECT_EQ(FailedReason(scene.Make()), "");

  scene.launcher->status.reset();  // the launcher does not answer
  EXPECT_EQ(FailedReason(scene.Make()), api::kReasonStartTimeout);
}

TEST(DeadlinePolicy, AStartIsOverWithTheFirstCommittedStep) {
  const api::TrainingJob job = StartedJob(StartTimeout(600), 1);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  control::LauncherStatus answer = RunningWorld(2);
  answer.beginning = control::Beginning{.step = 40};
  answer.progress = control::Progress{.step = 40};  // the step of the checkpoint
  scene.Answers(answer);
  EXPECT_EQ(scene.Make().status.first_step_time, "");
  answer.progress->step = 41;
  scene.Answers(answer);

  const Plan plan = scene.Make();
  EXPECT_EQ(plan.status.first_step_time, kPresent);

  scene.job.status = plan.status;
  scene.wall_now += std::chrono::hours(1);
  scene.Answers(RunningWorld(2));  // a new launcher that has no steps yet
  EXPECT_EQ(FailedReason(scene.Make()), "");
}

TEST(DeadlinePolicy, RanksThatRunAndDoNoStepAreTooLateToo) {
  const api::TrainingJob job = StartedJob(StartTimeout(600), 1);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  control::LauncherStatus answer = RunningWorld(2);
  answer.phase = control::LauncherPhase::kStarting;
  answer.world_size = 0;
  answer.message =
      "waiting for the ranks to load; rank 0 on digits-worker-0 was killed by signal 9";
  scene.Answers(answer);
  scene.wall_now += std::chrono::seconds(600);

  const Plan plan = scene.Make();

  EXPECT_EQ(FailedReason(plan), api::kReasonStartTimeout);
  EXPECT_THAT(FailedMessage(plan), HasSubstr("no step was completed within 600 s"));
  EXPECT_THAT(FailedMessage(plan), HasSubstr("rank 0 on digits-worker-0 was killed by signal 9"));
}

TEST(DeadlinePolicy, OfAnotherProgramTheStartIsOverWhenItsRanksRun) {
  api::TrainingJob job = StartedJob(StartTimeout(600), 1);
  job.spec.command = {"my-program"};
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  scene.Answers(RunningWorld(2));

  EXPECT_EQ(scene.Make().status.first_step_time, kPresent);
}

}  // namespace
}  // namespace ringmaster::job
