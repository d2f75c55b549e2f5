#include "operator/job/planner/make_plan.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/conditions.h"
#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using api::ConditionStatus;
using ringmaster::testing::DeletedNames;
using ringmaster::testing::EventReasons;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;

TEST(Plan, NewJobGetsEverythingAtOnce) {
  const api::TrainingJob job = JobBuilder().Build();

  const Plan plan = Scene{.job = job, .observed = SceneBuilder(job).NoServices().Build()}.Make();

  EXPECT_EQ(plan.raise_term, 1);
  EXPECT_EQ(plan.create_launcher, 1);
  EXPECT_EQ(plan.create_workers, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(plan.create_services);
  EXPECT_TRUE(plan.write_status);
  EXPECT_EQ(plan.status.launcher_term, 1);
  EXPECT_EQ(plan.status.state, api::kStatePending);
  EXPECT_FALSE(plan.order.has_value());
  EXPECT_TRUE(plan.deletes.empty());
}

TEST(Plan, CompleteJobNeedsNothingMore) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.launcher = LauncherView{.pod_uid = "uid-launcher-1", .status = RunningWorld(3)};
  scene.job.status = scene.Make().status;

  const Plan plan = scene.Make();

  EXPECT_FALSE(plan.CreatesPods());
  EXPECT_FALSE(plan.create_services);
  EXPECT_FALSE(plan.raise_term.has_value());
  EXPECT_FALSE(plan.write_status);
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_TRUE(plan.events.empty());
  ASSERT_TRUE(plan.order.has_value());
  EXPECT_EQ(plan.order->workers.size(), 3u);
}

struct LostLauncher {
  const char* name;
  PodBuilder pod;
};

TEST(Plan, LauncherLostWithoutAVerdictGetsTheNextTerm) {
  const LostLauncher table[] = {
      {"crashed", PodBuilder::Launcher(1).Ended(139, "Error", "segmentation fault")},
      {"ended with success but said nothing", PodBuilder::Launcher(1).Ended(0, "Completed")},
      {"crashed while a sidecar runs on",
       PodBuilder::Launcher(1).Ended(139, "Error").Phase(PodPhase::kRunning)},
      {"being deleted", PodBuilder::Launcher(1).Deleting()},
  };
  for (const LostLauncher& row : table) {
    const api::TrainingJob job = RunningJob();

    const Plan plan =
        Scene{.job = job, .observed = SceneBuilder(job).With(row.pod).Workers(3).Build()}.Make();

    EXPECT_EQ(plan.raise_term, 2) << row.name;
    EXPECT_EQ(plan.create_launcher, 2) << row.name;
    EXPECT_EQ(plan.point_service_at, 2) << row.name;
    EXPECT_TRUE(plan.create_workers.empty()) << row.name;
    EXPECT_FALSE(api::IsTerminal(plan.status)) << row.name;
    EXPECT_FALSE(plan.order.has_value()) << row.name;
  }
}

TEST(Plan, VanishedLauncherGetsTheNextTermToo) {
  const api::TrainingJob job = RunningJob();

  const Plan plan = Scene{.job = job, .observed = SceneBuilder(job).Workers(3).Build()}.Make();

  EXPECT_EQ(plan.raise_term, 2);
}

TEST(Plan, TermWhosePodWasRefusedIsUsedAgain) {
  const api::TrainingJob job = JobBuilder().Term(4).Build();
  Scene scene{.job = job, .observed = SceneBuilder(job).Build()};
  scene.memory.unused_term = 4;

  const Plan plan = scene.Make();

  EXPECT_FALSE(plan.raise_term.has_value());
  EXPECT_EQ(plan.create_launcher, 4);
}

TEST(Plan, AnEarlierLauncherOfWhichOnlyASidecarRunsIsDeleted) {
  const api::TrainingJob job = JobBuilder().Term(2).Condition(api::kCreated, "PodsCreated").Build();
  const auto observed =
      SceneBuilder(job)
          .Launcher()
          .With(PodBuilder::Launcher(1).Ended(1, "Error").Phase(PodPhase::kRunning))
          .Workers(3)
          .Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  EXPECT_EQ(DeletedNames(plan), std::vector<std::string>{"digits-launcher-1"});
}

// kstatus takes Reconciling for work in progress, even beside Stalled.
TEST(Plan, AJobThatCannotBeRunStallsWithoutAPodUntilItIsCorrected) {
  Scene scene{.job = JobBuilder().Build()};
  scene.observed = SceneBuilder(scene.job).NoServices().Build();
  scene.memory.refusal = Refusal{.reason = api::kReasonInvalidSpec,
                                 .message = "spec.worker.template.spec.hostPID is refused",
                                 .stalled = true,
                                 .retry_at = scene.now + std::chrono::minutes(1)};

  const Plan refused = scene.Make();

  const api::Condition* stalled = api::FindCondition(refused.status.conditions, api::kStalled);
  ASSERT_NE(stalled, nullptr);
  EXPECT_EQ(stalled->reason, api::kReasonInvalidSpec);
  EXPECT_EQ(stalled->message, scene.memory.refusal->message);
  EXPECT_FALSE(api::IsTrue(refused.status.conditions, api::kReconciling));
  EXPECT_FALSE(api::IsTerminal(refused.status));
  EXPECT_EQ(refused.status.state, api::kStatePending);
  EXPECT_EQ(refused.status.reason, api::kReasonInvalidSpec);
  EXPECT_EQ(EventReasons(refused), std::vector<std::string>{api::kReasonInvalidSpec});
  EXPECT_FALSE(refused.CreatesPods() || refused.create_services || refused.pin);
  EXPECT_FALSE(refused.raise_term.has_value());

  scene.job.status = refused.status;
  scene.job.spec.suspend = true;
  const Plan suspended = scene.Make();
  EXPECT_EQ(suspended.status.state, api::kStateSuspended);
  EXPECT_EQ(api::FindCondition(suspended.status.conditions, api::kStalled), nullptr);

  scene.job.spec.suspend = false;
  scene.memory.refusal.reset();
  const Plan corrected = scene.Make();
  EXPECT_EQ(api::FindCondition(corrected.status.conditions, api::kStalled), nullptr);
  EXPECT_TRUE(api::IsTrue(corrected.status.conditions, api::kReconciling));
  EXPECT_TRUE(corrected.CreatesPods());
}

TEST(Plan, RefusalBecomesACondititionAndIsRetriedInItsTime) {
  const api::TrainingJob job = JobBuilder().Term(1).Build();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
  scene.memory.refusal = Refusal{.reason = api::kReasonQuotaExceeded,
                                 .message = "exceeded quota: pods",
                                 .failures = 1,
                                 .retry_at = scene.now + std::chrono::seconds(2)};

  const Plan refused = scene.Make();
  scene.now += std::chrono::seconds(2);
  const Plan retried = scene.Make();

  EXPECT_FALSE(refused.CreatesPods());
  EXPECT_EQ(refused.requeue_after, std::chrono::seconds(2));
  const api::Condition* ready = api::FindCondition(refused.status.conditions, api::kWorkersReady);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->status, ConditionStatus::kFalse);
  EXPECT_EQ(ready->reason, api::kReasonQuotaExceeded);
  ASSERT_EQ(refused.events.size(), 1u);
  EXPECT_TRUE(refused.events[0].warning);
  EXPECT_EQ(retried.create_workers, (std::vector<int>{1, 2}));
}

TEST(Plan, WhatARunIsMadeFromIsWrittenDownOnceAndWaitsLikeItsPods) {
  const api::TrainingJob job = JobBuilder().Term(1).Build();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  EXPECT_TRUE(scene.Make().pin);

  scene.memory.refusal = Refusal{.reason = api::kReasonQuotaExceeded,
                                 .message = "exceeded quota",
                                 .failures = 1,
                                 .retry_at = scene.now + std::chrono::seconds(2)};
  EXPECT_FALSE(scene.Make().pin);

  scene.memory.refusal.reset();
  scene.memory.pin.emplace();
  EXPECT_FALSE(scene.Make().pin);
}

TEST(Plan, HowSlowAStragglerIsIsWrittenAsSeldomAsProgress) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.launcher = LauncherView{.pod_uid = "uid-launcher-1", .status = RunningWorld(3)};
  const auto straggler = [](int rank, double millis) {
    return control::Straggler{
        .pod_uid = "uid-worker-1", .rank = rank, .step_millis = millis, .median_millis = 40};
  };
  scene.launcher->status->stragglers = {straggler(1, 90)};
  const Plan first = scene.Make();
  EXPECT_TRUE(first.write_status) << "a new one is news";
  scene.job.status = first.status;
  scene.memory.progress_written = scene.now;
  scene.launcher->status->stragglers = {straggler(1, 95)};
  EXPECT_FALSE(scene.Make().write_status);
  scene.launcher->status->stragglers = {straggler(2, 95)};
  EXPECT_TRUE(scene.Make().write_status);
}

TEST(Plan, ProgressIsWrittenOftenOfFewJobsAndNeverMoreThanAHundredTimesASecondOfAll) {
  using std::chrono::milliseconds;
  EXPECT_EQ(ProgressPeriod(1), milliseconds(2000));
  EXPECT_EQ(ProgressPeriod(200), milliseconds(2000));
  EXPECT_EQ(ProgressPeriod(500), milliseconds(5000));
  EXPECT_EQ(ProgressPeriod(1000), milliseconds(10'000));
  EXPECT_EQ(ProgressPeriod(std::size_t{1} << 40), milliseconds(10'000));
}

TEST(Plan, ProgressAloneIsWrittenOnceInItsPeriod) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.launcher = LauncherView{.pod_uid = "uid-launcher-1", .status = RunningWorld(3)};
  scene.launcher->status->progress = control::Progress{.step = 10, .total_steps = 100, .loss = 1.0};
  scene.job.status = scene.Make().status;
  scene.memory.progress_written = scene.now;
  scene.launcher->status->progress->step = 20;

  scene.now += std::chrono::milliseconds(500);
  const Plan early = scene.Make();
  scene.now += std::chrono::milliseconds(1500);
  const Plan due = scene.Make();

  EXPECT_FALSE(early.write_status);
  EXPECT_EQ(early.requeue_after, std::chrono::milliseconds(1500));
  EXPECT_TRUE(due.write_status);
  EXPECT_EQ(due.status.progress->percent, 20);
}

TEST(Plan, ARefusedChangeIsToldOnceAndItsConditionStays) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  const auto told = [](const Plan& plan) {
    return std::ranges::count(plan.events, api::kEventChangePending, &PlannedEvent::reason);
  };
  PlanInput input = scene.Input();
  EXPECT_EQ(told(MakePlan(input)), 0);

  input.changed = {"spec.image"};
  const Plan first = MakePlan(input);
  scene.job.status = first.status;
  const Plan second = MakePlan(input);
  input.changed.clear();
  const Plan changed_back = MakePlan(input);

  EXPECT_EQ(told(first), 1);
  EXPECT_EQ(told(second), 0);
  EXPECT_TRUE(api::IsTrue(second.status.conditions, api::kChangePending));
  EXPECT_EQ(told(changed_back), 0);
  EXPECT_FALSE(api::IsTrue(changed_back.status.conditions, api::kChangePending));
}

TEST(Plan, AJobIsHeldOnceItMayHaveCheckpointsThatGoWithIt) {
  struct Row {
    const char* name;
    bool deletes;
    int64_t term;
    int workers;
    bool held;
    bool hold;
    bool let_go;
  };
  const Row table[] = {
      {"workers are made now", true, 0, 0, false, true, false},
      {"a launcher ran, its workers exist", true, 1, 3, false, true, false},
      {"neither yet", true, 0, 3, false, false, false},
      {"held already", true, 1, 3, true, false, false},
      {"its checkpoints stay", false, 1, 3, false, false, false},
      {"its checkpoints are kept, and it is held", false, 1, 3, true, false, true},
  };
  for (const Row& row : table) {
    api::CheckpointSpec checkpoint{.volume_json = "{}"};
    checkpoint.delete_with_job = row.deletes;
    api::TrainingJob job = JobBuilder().Term(row.term).Checkpoint(checkpoint).Build();
    job.held = row.held;

    const Plan plan =
        Scene{.job = job, .observed = SceneBuilder(job).Workers(row.workers).Build()}.Make();

    EXPECT_EQ(plan.hold, row.hold) << row.name;
    EXPECT_EQ(plan.let_go, row.let_go) << row.name;
  }
}

// An uninstalled installation said that nobody runs it; whoever does says so.
TEST(Plan, AJobThatNobodyRanIsManagedAgain) {
  api::TrainingJob job =
      JobBuilder()
          .Replicas(3)
          .Term(1)
          .Condition(api::kCreated, "PodsCreated")
          .Condition(api::kManaged, api::kReasonUninstalled, ConditionStatus::kFalse)
          .Build();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers(RunningWorld(3));

  const Plan plan = scene.Make();

  const api::Condition* managed = api::FindCondition(plan.status.conditions, api::kManaged);
  ASSERT_NE(managed, nullptr);
  EXPECT_EQ(managed->status, ConditionStatus::kTrue);
  EXPECT_EQ(managed->reason, api::kReasonAdopted);
  EXPECT_TRUE(plan.write_status);
}

TEST(Plan, AnOperatorWithoutANameLeavesTheNameThatIsThere) {
  api::TrainingJob job = RunningJob();
  job.status.installation = "them/lease";
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers(RunningWorld(3));

  const Plan plan = scene.Make();

  EXPECT_TRUE(plan.write_status);
  EXPECT_EQ(plan.status.installation, "them/lease");
}

TEST(Plan, WhereWorkersAreOnTheirNodesNetworkTheirAddressesAreAdmitted) {
  for (const bool host_network : {false, true}) {
    api::TrainingJob job = RunningJob(1);
    job.spec.host_network = host_network;
    PodView worker = *PodBuilder::Worker(0).Build();
    worker.ip = "10.0.0.5";
    NodeView node;
    node.name = worker.node;
    node.ready = true;
    node.addresses = {"192.168.0.5", "10.0.0.5"};
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().With(node).Build()};
    scene.observed.live = {std::make_shared<const PodView>(worker)};
    const std::vector<std::string> addresses{"10.0.0.5", "192.168.0.5"};

    const Plan first = scene.Make();
    scene.memory.admitted = addresses;
    const Plan second = scene.Make();

    EXPECT_EQ(first.admit_nodes, host_network ? std::optional(addresses) : std::nullopt);
    EXPECT_FALSE(second.admit_nodes.has_value());
  }
}

TEST(Plan, WhetherAJobsPodsAreIsolatedIsLookedAtAgainInTime) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers(RunningWorld(3));

  const Plan first = scene.Make();
  scene.memory.isolated = true;
  scene.memory.isolation_checked = scene.now - std::chrono::milliseconds(1);
  const Plan isolated = scene.Make();

  EXPECT_TRUE(first.isolate);
  EXPECT_FALSE(first.requeue_after.has_value());
  EXPECT_FALSE(isolated.isolate);
  EXPECT_EQ(isolated.requeue_after, IsolationCheckDue(scene.memory, scene.now));
  EXPECT_GT(*isolated.requeue_after, std::chrono::milliseconds(0));
}

TEST(Plan, AnAdoptedJobAdmitsItsNewOperatorOnce) {
  api::TrainingJob job = RunningJob();
  job.status.installation = "them/lease";
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers(RunningWorld(3));
  PlanInput input = scene.Input();
  input.installation = "us/lease";

  const Plan plan = MakePlan(input);

  EXPECT_TRUE(plan.admit_nodes.has_value());
  EXPECT_EQ(plan.status.installation, "us/lease");
  scene.job.status = plan.status;
  PlanInput next = scene.Input();
  next.installation = "us/lease";
  EXPECT_FALSE(MakePlan(next).admit_nodes.has_value());
}

}  // namespace
}  // namespace ringmaster::job
