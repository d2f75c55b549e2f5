#include "operator/job/planner/make_plan.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

TEST(Plan, ABeginningWithoutTheCheckpointAskedForIsAWarning) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  for (const int64_t step : {0, 500}) {
    control::LauncherStatus answer = RunningWorld(3);
    answer.beginning = {.step = step, .message = "as the trainer says"};
    scene.Answers(answer);

    const Plan plan = scene.Make();

    const std::string reason = step == 0 ? api::kReasonStartedAfresh : api::kReasonFromCheckpoint;
    const auto told = std::ranges::find(plan.events, reason, &PlannedEvent::reason);
    ASSERT_NE(told, plan.events.end()) << reason;
    EXPECT_EQ(told->warning, step == 0);
  }
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

TEST(Plan, TermWhosePodWasRefusedIsUsedAgain) {
  for (const int64_t term : {1, 4}) {
    const api::TrainingJob job = JobBuilder().Term(term).Build();
    Scene scene{.job = job, .observed = SceneBuilder(job).Build()};
    scene.memory.unused_term = term;

    const Plan plan = scene.Make();

    EXPECT_FALSE(plan.raise_term.has_value());
    EXPECT_EQ(plan.create_launcher, term);
    EXPECT_TRUE(plan.events.empty()) << "there was none";
  }
}

TEST(Plan, AnEventReportsHowALauncherWasLostWithItsNode) {
  struct Row {
    std::optional<PodBuilder> launcher;
    const char* event;
  };
  const Row table[] = {
      {std::nullopt,
       "LauncherReplaced: digits-launcher-1 does not exist; a new launcher takes over"},
      {PodBuilder::Launcher(1).Deleting(),
       "LauncherReplaced: digits-launcher-1 on node node-1 was deleted; a new launcher takes over"},
      {PodBuilder::Launcher(1).Deleting().OnNode(""),
       "LauncherReplaced: digits-launcher-1 was deleted; a new launcher takes over"},
      {PodBuilder::Launcher(1).Disrupted("EvictionByEvictionAPI"),
       "LauncherReplaced: digits-launcher-1 on node node-1 is being disrupted "
       "(EvictionByEvictionAPI); "
       "a new launcher takes over"},
      {PodBuilder::Launcher(1).Ended(139, "Error"),
       "LauncherReplaced: digits-launcher-1 on node node-1 ended with exit code 139 (Error) "
       "without reporting a result; a new launcher takes over"},
      {PodBuilder::Launcher(1).Ended(137, "OOMKilled"),
       "OOMKilled: digits-launcher-1 on node node-1 ran out of memory: the container has no memory "
       "limit, so its node or Pod ran out of memory; set resources.requests.memory of "
       "container launcher in spec.launcher.template. A new launcher takes over"},
  };
  for (const Row& row : table) {
    const api::TrainingJob job = RunningJob();
    SceneBuilder builder(job);
    if (row.launcher) builder.With(*row.launcher);

    const Plan plan = Scene{.job = job, .observed = builder.Workers(3).Build()}.Make();

    EXPECT_EQ(plan.raise_term, 2) << row.event;
    ASSERT_EQ(plan.events.size(), 1U) << row.event;
    EXPECT_TRUE(plan.events[0].warning);
    EXPECT_EQ(plan.events[0].reason + ": " + plan.events[0].note, row.event);
  }
}

TEST(Plan, AFirstLauncherIsKnownBeforeTheStatusNamesItsTerm) {
  const api::TrainingJob job = JobBuilder().Build();

  const Plan plan =
      Scene{.job = job,
            .observed = SceneBuilder(job).With(PodBuilder::Launcher(1)).Workers(3).Build()}
          .Make();

  EXPECT_FALSE(plan.CreatesPods());
  EXPECT_EQ(plan.status.launcher_term, 1);
}

TEST(Plan, ALauncherWithoutAnAddressGetsNoOrder) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  PodView launcher = *scene.observed.launcher;
  launcher.ip.clear();
  scene.observed.launcher = std::make_shared<const PodView>(launcher);

  EXPECT_FALSE(scene.Make().order.has_value());
}

TEST(Plan, AnEarlierLauncherThatRunsIsDeletedOnce) {
  const api::TrainingJob job = JobBuilder().Term(2).Condition(api::kCreated, "PodsCreated").Build();
  const std::pair<PodBuilder, bool> table[] = {
      {PodBuilder::Launcher(1), true},
      {PodBuilder::Launcher(1).Ended(1, "Error").Phase(PodPhase::kRunning), true},  // a sidecar
      {PodBuilder::Launcher(1).Ended(1, "Error"), false},
      {PodBuilder::Launcher(1).Deleting(), false},
  };
  for (const auto& [launcher, deleted] : table) {
    const auto observed = SceneBuilder(job).Launcher().With(launcher).Workers(3).Build();

    const Plan plan = Scene{.job = job, .observed = observed}.Make();

    EXPECT_EQ(DeletedNames(plan),
              deleted ? std::vector<std::string>{"digits-launcher-1"} : std::vector<std::string>{});
  }
}

TEST(Plan, AJobIsCreatedOnceItsPodsAndBothItsServicesExist) {
  struct Row {
    const char* missing;
    std::function<void(Observed&)> remove;
    bool services;  // whether the plan creates Services
  };
  const Row table[] = {
      {"nothing", [](Observed&) {}, false},
      {"the launcher", [](Observed& seen) { seen.launcher = nullptr; }, false},
      {"a worker", [](Observed& seen) { seen.live.pop_back(); }, false},
      {"the workers' Service", [](Observed& seen) { seen.worker_service = nullptr; }, true},
      {"the launcher's Service", [](Observed& seen) { seen.launcher_service = nullptr; }, true},
  };
  for (const Row& row : table) {
    const api::TrainingJob job = JobBuilder().Term(1).Build();
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
    row.remove(scene.observed);

    const Plan plan = scene.Make();

    EXPECT_EQ(plan.create_services, row.services) << row.missing;
    EXPECT_EQ(api::IsTrue(plan.status.conditions, api::kCreated),
              std::string(row.missing) == "nothing")
        << row.missing;
  }
}

TEST(Plan, PodsThatFailRepeatedlyAreReplacedAfterAWhile) {
  for (const bool launcher : {false, true}) {
    const api::TrainingJob job = RunningJob();
    SceneBuilder builder(job);
    if (!launcher) builder.Launcher();
    Scene scene{.job = job, .observed = builder.Workers(launcher ? 3 : 2).Build()};
    for (const char* time :
         {"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:40Z"}) {
      scene.job.status.failures.push_back(
          {.pod_uid = time, .reason = launcher ? api::kReasonLauncherLost : "Error", .time = time});
    }
    scene.wall_now += std::chrono::milliseconds(999);

    const Plan waits = scene.Make();
    scene.wall_now += std::chrono::milliseconds(1);
    const Plan due = scene.Make();

    EXPECT_FALSE(waits.CreatesPods()) << launcher;
    EXPECT_EQ(waits.requeue_after, std::chrono::milliseconds(1)) << launcher;
    const api::Condition* ready = api::FindCondition(waits.status.conditions, api::kWorkersReady);
    ASSERT_NE(ready, nullptr);
    EXPECT_EQ(ready->reason, api::kReasonBackOff) << launcher;
    EXPECT_TRUE(due.CreatesPods()) << launcher;
  }
}

// Another installation with other profiles or another version might not end or stall the job.
TEST(Plan, AnUnclaimedJobIsClaimedBeforeItEndsOrStalls) {
  struct Row {
    const char* name;
    Refusal refusal;
    bool taken;
  };
  const Row table[] = {
      {"its spec is refused for good", {.cause = RefusalCause::kInvalidPod}, true},
      {"it stalls", {.cause = RefusalCause::kInvalidSpec, .stalled = true}, true},
      {"its profile refuses it", {.cause = RefusalCause::kRefusedByProfile}, true},
      {"there is no quota for it", {.cause = RefusalCause::kQuotaExceeded}, false},
  };
  for (const Row& row : table) {
    const api::TrainingJob job = JobBuilder().Build();
    Scene scene{.job = job, .observed = SceneBuilder(job).NoServices().Build()};
    scene.memory.refusal = row.refusal;
    scene.memory.refusal->retry_at = scene.now + std::chrono::minutes(1);
    const auto plan = [&] {
      PlanInput input = scene.Input();
      input.installation = "us/lease";
      return MakePlan(input);
    };

    const Plan seen_first = plan();
    scene.memory.unclaimed_since = scene.now;
    scene.now += std::chrono::milliseconds(999);
    const Plan early = plan();
    scene.now += std::chrono::milliseconds(1);
    const Plan due = plan();

    EXPECT_EQ(seen_first.claims, row.taken) << row.name;
    EXPECT_EQ(due.claims, row.taken) << row.name;
    if (!row.taken) continue;
    EXPECT_EQ(seen_first.requeue_after, std::chrono::seconds(1)) << row.name;
    EXPECT_FALSE(early.write_status) << row.name << ": others first";
    EXPECT_EQ(early.requeue_after, std::chrono::milliseconds(1)) << row.name;
    EXPECT_TRUE(due.write_status) << row.name;
    EXPECT_EQ(due.status.installation, "us/lease") << row.name;
  }
}

// If the plan creates the launcher's Service, the Service records the installation.
TEST(Plan, WhoHasAJobIsWrittenWithItsStatusUnlessItsServiceIsMadeNow) {
  struct Row {
    bool services;
    bool refused;
    const char* installation;
  };
  for (const Row& row :
       {Row{true, false, "us/lease"}, Row{false, false, ""}, Row{false, true, "us/lease"}}) {
    const api::TrainingJob job = RunningJob();
    SceneBuilder builder = SceneBuilder(job).Launcher().Workers(3);
    if (!row.services) builder.NoServices();
    Scene scene{.job = job, .observed = builder.Build()};
    if (row.refused) {
      scene.memory.refusal = Refusal{.cause = RefusalCause::kQuotaExceeded,
                                     .retry_at = scene.now + std::chrono::seconds(2)};
    }
    PlanInput input = scene.Input();
    input.installation = "us/lease";

    const Plan plan = MakePlan(input);

    EXPECT_TRUE(plan.write_status);
    EXPECT_EQ(plan.status.installation, row.installation);
    EXPECT_FALSE(plan.admit_nodes.has_value()) << "it comes from nobody";
  }
}

TEST(Plan, TheProfileOfARunIsWrittenDown) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  PlanInput input = scene.Input();
  input.profile = "gpu";
  scene.job.status = MakePlan(input).status;

  EXPECT_EQ(scene.job.status.profile, "gpu");
  EXPECT_EQ(scene.Make().status.profile, "gpu") << "it stays";
}

// kstatus treats Reconciling as work in progress, even if Stalled is also true.
TEST(Plan, AJobThatCannotBeRunStallsWithoutAPodUntilItIsCorrected) {
  Scene scene{.job = JobBuilder().Build()};
  scene.observed = SceneBuilder(scene.job).NoServices().Build();
  scene.memory.refusal = Refusal{.cause = RefusalCause::kInvalidSpec,
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

TEST(Plan, ARefusalBecomesAConditionAndIsRetriedInItsTime) {
  const api::TrainingJob job = JobBuilder().Term(1).Build();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
  scene.memory.refusal = Refusal{.cause = RefusalCause::kQuotaExceeded,
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

  scene.memory.refusal = Refusal{.cause = RefusalCause::kQuotaExceeded,
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
  scene.memory.status_writes.progress = scene.now;
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
  EXPECT_EQ(ProgressPeriod(999), milliseconds(9990));
  EXPECT_EQ(ProgressPeriod(1000), milliseconds(10'000));
  EXPECT_EQ(ProgressPeriod(std::size_t{1} << 40), milliseconds(10'000));
}

TEST(Plan, ProgressAloneIsWrittenOnceInItsPeriod) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.launcher = LauncherView{.pod_uid = "uid-launcher-1", .status = RunningWorld(3)};
  scene.launcher->status->progress = control::Progress{.step = 10, .total_steps = 100, .loss = 1.0};
  scene.job.status = scene.Make().status;
  scene.memory.status_writes.progress = scene.now;
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

TEST(Plan, ARefusedChangeIsAnnouncedOnceAndItsConditionStays) {
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
  EXPECT_TRUE(first.events.back().warning);
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

// An uninstalled operator had set Managed to False; the operator that takes over sets it to True.
TEST(Plan, AJobWithoutAnOperatorIsManagedAgain) {
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
    worker.ip = "10.0.0.7";
    NodeView node;
    node.name = worker.node;
    node.ready = true;
    node.addresses = {"192.168.0.5", "10.0.0.5"};
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().With(node).Build()};
    const PodPtr without_address = PodBuilder::Worker(1).OnNode("").Build();
    scene.observed.live = {std::make_shared<const PodView>(worker), without_address};
    const std::vector<std::string> addresses{"10.0.0.5", "10.0.0.7", "192.168.0.5"};

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
  scene.memory.isolation = IsolationCheck{
      .isolated = true, .at = scene.now - kCheckIsolation + std::chrono::milliseconds(1)};
  const Plan isolated = scene.Make();

  EXPECT_TRUE(first.isolate);
  EXPECT_FALSE(first.requeue_after.has_value());
  EXPECT_FALSE(isolated.isolate);
  EXPECT_EQ(isolated.requeue_after, std::chrono::milliseconds(1));
}

TEST(Plan, PoliciesAreNotLookedAtBeforeThePodsWithWhichTheyAreMade) {
  struct Row {
    const char* name;
    std::function<void(Scene&)> change;
  };
  const Row table[] = {
      {"its Service is missing", [](Scene& s) { s.observed.launcher_service = nullptr; }},
      {"it gets a Pod", [](Scene& s) { s.observed.live.pop_back(); }},
      {"the API server refused something",
       [](Scene& s) {
         s.memory.refusal = Refusal{.cause = RefusalCause::kQuotaExceeded,
                                    .retry_at = s.now + std::chrono::seconds(2)};
       }},
  };
  for (const Row& row : table) {
    const api::TrainingJob job = RunningJob();
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
    row.change(scene);

    EXPECT_FALSE(scene.Make().isolate) << row.name;
  }
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
