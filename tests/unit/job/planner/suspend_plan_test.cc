#include "operator/job/planner/suspend_plan.h"

#include <functional>
#include <optional>

#include <gmock/gmock.h>

#include "operator/api/conditions.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::DeletedNames;
using ringmaster::testing::EventReasons;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLater[] = "2026-11-20T12:00:00Z";

api::TrainingJob Suspended(api::TrainingJob job) {
  job.spec.suspend = true;
  return job;
}

// Returns a job that must be suspended while its two workers train.
Scene Training() {
  api::TrainingJob job = Suspended(RunningJob(2));
  job.status.epoch = 1;
  job.status.start_time = "2026-11-20T09:00:00Z";
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  scene.Answers(RunningWorld(2));
  scene.Ordered({0, 1});
  return scene;
}

// Makes the launcher confirm the order to scale the job to zero workers.
void ConfirmsTheEnd(Scene& scene) {
  control::Order order;
  order.replicas = order.min_replicas = 0;
  scene.launcher->order = std::make_shared<const control::Order>(order);
}

const api::Condition& ConditionOf(const Plan& plan, const char* type) {
  const api::Condition* condition = api::FindCondition(plan.status.conditions, type);
  static const api::Condition none;
  return condition == nullptr ? none : *condition;
}

TEST(SuspendPlan, AJobThatIsCreatedSuspendedMakesNothing) {
  const api::TrainingJob job = Suspended(JobBuilder().Build());

  const Plan plan = Scene{.job = job, .observed = SceneBuilder(job).NoServices().Build()}.Make();

  EXPECT_FALSE(plan.CreatesPods());
  EXPECT_FALSE(plan.create_services);
  EXPECT_FALSE(plan.raise_term.has_value());
  EXPECT_TRUE(plan.write_status);
  EXPECT_EQ(plan.status.state, api::kStateSuspended);
  EXPECT_EQ(plan.status.start_time, "");
  EXPECT_EQ(ConditionOf(plan, api::kSuspended).status, api::ConditionStatus::kTrue);
  EXPECT_THAT(ConditionOf(plan, api::kSuspended).message, HasSubstr("it has not run yet"));
  EXPECT_EQ(ConditionOf(plan, api::kRunning).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(plan, api::kRunning).reason, api::kReasonSuspended);
  EXPECT_THAT(EventReasons(plan), ElementsAre(api::kEventSuspended));
}

TEST(SuspendPlan, ASuspendedJobIsQuiet) {
  const api::TrainingJob job = Suspended(JobBuilder().Build());
  Scene scene{.job = job, .observed = SceneBuilder(job).NoServices().Build()};
  scene.job.status = scene.Make().status;
  scene.wall_now += std::chrono::hours(1);

  const Plan plan = scene.Make();

  EXPECT_FALSE(plan.write_status);
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_FALSE(plan.requeue_after.has_value());
}

// The first launcher's Pod is created together with the status that names its term.
TEST(SuspendPlan, ATermIsNamedBeforeItsLauncherGoesSoThatItIsNotUsedTwice) {
  const api::TrainingJob job = Suspended(JobBuilder().Replicas(1).Build());
  Scene scene{.job = job,
              .observed = SceneBuilder(job).With(PodBuilder::Launcher(1)).Workers(1).Build()};

  const Plan first = scene.Make();
  scene.job.status = first.status;
  const Plan second = scene.Make();

  EXPECT_THAT(DeletedNames(first), IsEmpty());
  EXPECT_TRUE(first.write_status);
  EXPECT_EQ(first.status.launcher_term, 1);
  EXPECT_EQ(DeletedNames(second).size(), 2U);
}

TEST(SuspendPlan, RanksAreStoppedBeforeTheirPodsAreDeleted) {
  const Plan plan = Training().Make();

  EXPECT_THAT(DeletedNames(plan), IsEmpty());
  ASSERT_TRUE(plan.order.has_value());
  EXPECT_EQ(plan.order->replicas, 0);
  EXPECT_THAT(plan.order->workers, IsEmpty());
  EXPECT_EQ(plan.suspending, Suspending::kEnding);
  EXPECT_EQ(plan.requeue_after, kSuspendLimit);
  EXPECT_EQ(ConditionOf(plan, api::kSuspended).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(plan, api::kSuspended).reason, api::kReasonSuspending);
  EXPECT_THAT(plan.events, IsEmpty());
}

// A launcher that is forming a world does not report progress.
TEST(SuspendPlan, WithoutProgressTheCheckpointIsReckonedFromTheStatus) {
  Scene scene = Training();
  scene.job.spec.checkpoint = api::CheckpointSpec{.volume_json = "{}", .every_steps = 100};
  scene.job.status.progress = api::JobProgress{.step = 120};
  control::LauncherStatus forming = RunningWorld(2);
  forming.phase = control::LauncherPhase::kForming;
  forming.progress = control::Progress{.step = 1, .total_steps = 7};
  forming.progress.reset();
  scene.Answers(forming);

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.suspending, Suspending::kAwaitingCheckpoint);
  EXPECT_THAT(ConditionOf(plan, api::kSuspended).message, HasSubstr("120"));
}

TEST(SuspendPlan, PodsGoTogetherOnceTheRanksHaveEnded) {
  struct Row {
    const char* name;
    std::function<void(Scene&)> change;
    bool go;
  };
  const std::vector<Row> table = {
      {"not told yet", [](Scene&) {}, false},
      {"told, still members", ConfirmsTheEnd, false},
      {"told, one is drained",
       [](Scene& scene) {
         ConfirmsTheEnd(scene);
         scene.launcher->status->workers[0].member = false;
         scene.launcher->status->workers[0].drained = true;
       },
       false},
      {"told, drained and lost",
       [](Scene& scene) {
         ConfirmsTheEnd(scene);
         scene.launcher->status->workers[0].drained = true;
         scene.launcher->status->workers[1].fenced = true;
       },
       true},
      {"no word of them any more",
       [](Scene& scene) {
         ConfirmsTheEnd(scene);
         scene.launcher->status->workers.clear();
       },
       true},
      {"a first world that no status has yet", [](Scene& scene) { scene.job.status.epoch = 0; },
       false},
      {"a silent launcher", [](Scene& scene) { scene.launcher.reset(); }, false},
      {"a silent launcher that never had a world",
       [](Scene& scene) {
         scene.launcher.reset();
         scene.job.status.epoch = 0;
       },
       true},
      {"the time is over",
       [](Scene& scene) {
         scene.memory.suspension.emplace();
         scene.memory.suspension->ending_since = scene.now - kSuspendLimit;
       },
       true},
      {"the launcher is gone", [](Scene& scene) { scene.observed.launcher = nullptr; }, true},
      {"the launcher is being deleted",
       [](Scene& scene) { scene.observed.launcher = PodBuilder::Launcher(1).Deleting().Build(); },
       true},
      {"the launcher has ended",
       [](Scene& scene) {
         scene.observed.launcher = PodBuilder::Launcher(1).Ended(1, "Error").Build();
       },
       true},
      {"there are no workers", [](Scene& scene) { scene.observed.live.clear(); }, true},
      {"a launcher that has had no world",
       [](Scene& scene) {
         scene.launcher->status->epoch = {};
         scene.job.status.epoch = 0;
       },
       true},
  };
  for (const Row& row : table) {
    Scene scene = Training();
    row.change(scene);

    const Plan plan = scene.Make();

    EXPECT_EQ(!plan.deletes.empty(), row.go) << row.name;
    EXPECT_EQ(plan.suspending, Suspending::kEnding) << row.name;
    EXPECT_EQ(plan.deletes.size(), row.go ? scene.observed.PodsToDelete().size() : 0u) << row.name;
    EXPECT_EQ(ConditionOf(plan, api::kSuspended).reason, api::kReasonSuspending) << row.name;
    EXPECT_FALSE(plan.CreatesPods()) << row.name;
  }
}

// No launcher exists yet, or the first launcher's Pod was deleted before its term was recorded.
TEST(SuspendPlan, WorkersWithoutALauncherGoAtOnceAndNameNoTerm) {
  const api::TrainingJob job = Suspended(JobBuilder().Replicas(2).Build());

  const Plan plan = Scene{.job = job, .observed = SceneBuilder(job).Workers(2).Build()}.Make();

  EXPECT_EQ(DeletedNames(plan).size(), 2U);
  EXPECT_EQ(plan.status.launcher_term, 0);
}

TEST(SuspendPlan, OnlyAReachableLauncherGetsTheOrderToStop) {
  struct Row {
    const char* name;
    std::function<PodPtr(PodView)> launcher;
    bool told;
  };
  const auto share = [](const PodView& pod) { return std::make_shared<const PodView>(pod); };
  const Row table[] = {
      {"it runs", [&](const PodView& pod) { return share(pod); }, true},
      {"it has no address",
       [&](PodView pod) {
         pod.ip.clear();
         return share(pod);
       },
       false},
      {"it has ended",
       [&](PodView pod) {
         pod.phase = PodPhase::kFailed;
         pod.container.terminated = true;
         pod.container.exit_code = 1;
         return share(pod);
       },
       false},
  };
  for (const Row& row : table) {
    Scene scene = Training();
    scene.observed.launcher = row.launcher(*scene.observed.launcher);

    const Plan plan = scene.Make();

    EXPECT_EQ(plan.suspending, Suspending::kEnding) << row.name;
    EXPECT_EQ(plan.order.has_value(), row.told) << row.name;
  }
}

TEST(SuspendPlan, ASuspendedJobHasNoRanks) {
  Scene scene = Training();
  scene.job.status.world_size = 2;
  scene.job.status.workers = {.desired = 2, .replicas = 2, .ready = 2, .members = 2};
  scene.job.status.progress = api::JobProgress{.step = 5, .samples_per_second = "900"};
  scene.job.status.stragglers.emplace_back();
  scene.job.status.conditions.push_back(
      {.type = api::kResizing, .status = api::ConditionStatus::kTrue, .reason = "ScalingUp"});
  scene.observed = SceneBuilder(scene.job).With(PodBuilder::Launcher(1).Deleting()).Build();

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.status.workers.ready, 0);
  EXPECT_EQ(plan.status.workers.members, 0);
  EXPECT_EQ(plan.status.world_size, 0);
  EXPECT_EQ(plan.status.progress->samples_per_second, "");
  EXPECT_THAT(plan.status.stragglers, IsEmpty());
  EXPECT_EQ(ConditionOf(plan, api::kResizing).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(plan, api::kResizing).reason, api::kReasonSuspended);
}

// Returns a job that has completed step 150 and has a checkpoint of step 100.
Scene Checkpointing() {
  Scene scene = Training();
  scene.job.spec.checkpoint = api::CheckpointSpec{.volume_json = "{}", .every_steps = 100};
  scene.launcher->status->progress = control::Progress{.step = 150, .total_steps = 100'000};
  scene.launcher->status->checkpoint = control::CheckpointReport{.step = 100};
  return scene;
}

TEST(SuspendPlan, ACheckpointOfWhatIsDoneIsWaitedFor) {
  struct Row {
    const char* name;
    std::function<void(Scene&)> change;
    bool waits;
  };
  const auto began = [](Scene& scene, int seconds_ago, int64_t at) {
    scene.memory.suspension = SuspensionMemory{
        .since = scene.now - std::chrono::seconds(seconds_ago), .step = at, .ending_since = {}};
  };
  const std::vector<Row> table = {
      {"asked for", [](Scene&) {}, true},
      {"being written",
       [&](Scene& scene) {
         began(scene, 30, 150);
         scene.launcher->status->progress->step = 207;
       },
       true},
      {"complete",
       [&](Scene& scene) {
         began(scene, 30, 150);
         scene.launcher->status->progress->step = 207;
         scene.launcher->status->checkpoint->step = 200;
       },
       false},
      {"it took too long",
       [&](Scene& scene) {
         began(scene, 120, 150);
         scene.launcher->status->progress->step = 207;
       },
       false},
      {"nothing has been done since the last one",
       [](Scene& scene) { scene.launcher->status->progress->step = 100; }, false},
      {"nothing has been done at all",
       [](Scene& scene) {
         scene.launcher->status->progress->step = 0;
         scene.launcher->status->checkpoint.reset();
       },
       false},
      {"checkpoints fail",
       [](Scene& scene) {
         scene.launcher->status->unprotected = {{"checkpoint", "digits-worker-0", "disk full"}};
       },
       false},
      {"the job has none", [](Scene& scene) { scene.job.spec.checkpoint.reset(); }, false},
      {"between two worlds",
       [&](Scene& scene) {
         began(scene, 30, 150);
         scene.launcher->status->phase = control::LauncherPhase::kForming;
         scene.launcher->status->progress.reset();
       },
       true},
      {"training pauses",
       [](Scene& scene) { scene.launcher->status->phase = control::LauncherPhase::kPaused; },
       false},
      {"an earlier operator told them to end",
       [&](Scene& scene) {
         began(scene, 1, 150);
         ConfirmsTheEnd(scene);
       },
       false},
      {"the ranks are being ended",
       [&](Scene& scene) {
         began(scene, 1, 150);
         scene.memory.suspension->ending_since = scene.now;
       },
       false},
  };
  for (const Row& row : table) {
    Scene scene = Checkpointing();
    row.change(scene);

    const Plan plan = scene.Make();

    EXPECT_EQ(plan.suspending, row.waits ? Suspending::kAwaitingCheckpoint : Suspending::kEnding)
        << row.name;
    ASSERT_TRUE(plan.order.has_value()) << row.name;
    EXPECT_EQ(plan.order->workers.size(), row.waits ? 2u : 0u) << row.name;
    EXPECT_THAT(DeletedNames(plan), IsEmpty()) << row.name;
    if (!row.waits) continue;
    EXPECT_THAT(ConditionOf(plan, api::kSuspended).message,
                HasSubstr("waiting for a checkpoint of step 150 or later; then"))
        << row.name;
    EXPECT_LE(plan.requeue_after, kCheckpointLimit) << row.name;
  }
}

// Tests an operator that has just become the leader and has no answer of the launcher yet.
TEST(SuspendPlan, ALauncherThatWasNotAskedYetIsAskedBeforeAnythingEnds) {
  Scene scene = Checkpointing();
  scene.launcher.reset();

  const Plan plan = scene.Make();

  ASSERT_TRUE(plan.order.has_value());
  EXPECT_TRUE(plan.order->checkpoint);
  EXPECT_EQ(plan.order->workers.size(), 2u);
  EXPECT_THAT(DeletedNames(plan), IsEmpty());
  EXPECT_EQ(plan.suspending, Suspending::kNo) << "its two minutes have not begun";
  EXPECT_LE(plan.requeue_after, std::chrono::seconds(1));
  EXPECT_EQ(ConditionOf(plan, api::kSuspended).reason, api::kReasonSuspending);

  scene.memory.suspension.emplace();
  scene.memory.suspension->ending_since = scene.now;
  EXPECT_EQ(scene.Make().suspending, Suspending::kEnding) << "that is not taken back";
}

TEST(SuspendPlan, TheLauncherIsAskedForACheckpointUntilThereIsOne) {
  Scene scene = Checkpointing();

  const Plan asked = scene.Make();

  EXPECT_EQ(asked.suspending, Suspending::kAwaitingCheckpoint);
  ASSERT_TRUE(asked.order.has_value());
  EXPECT_TRUE(asked.order->checkpoint);
  EXPECT_EQ(asked.order->workers.size(), 2u);
  EXPECT_THAT(ConditionOf(asked, api::kSuspended).message,
              HasSubstr("waiting for a checkpoint of step 150 or later; then"));

  scene.memory.suspension = SuspensionMemory{.since = scene.now, .step = 150, .ending_since = {}};
  scene.launcher->status->checkpoint->step = 151;
  const Plan ended = scene.Make();

  EXPECT_EQ(ended.suspending, Suspending::kEnding);
  ASSERT_TRUE(ended.order.has_value());
  EXPECT_FALSE(ended.order->checkpoint);
}

TEST(SuspendPlan, TheStateThatIsKeptIsReportedOnceThePodsAreGone) {
  struct Row {
    const char* name;
    std::function<void(api::TrainingJob&)> change;
    const char* said;
  };
  const std::vector<Row> table = {
      {"a checkpoint",
       [](api::TrainingJob& job) {
         job.spec.checkpoint = api::CheckpointSpec{.volume_json = "{}"};
         job.status.checkpoint = {.step = 500, .time = ""};
       },
       "it will resume from the checkpoint of step 500"},
      {"checkpoints, none known",
       [](api::TrainingJob& job) {
         job.spec.checkpoint = api::CheckpointSpec{.volume_json = "{}"};
       },
       "the latest complete checkpoint on its volume, if there is one"},
      {"nothing", [](api::TrainingJob&) {}, "it will restart from its first step"},
      {"another program", [](api::TrainingJob& job) { job.spec.command = {"mpi-solver"}; },
       "its program will resume from the state that it saved"},
  };
  for (const Row& row : table) {
    Scene scene = Training();
    row.change(scene.job);
    scene.observed = SceneBuilder(scene.job)
                         .With(PodBuilder::Launcher(1).Deleting())
                         .With(PodBuilder::Worker(0).Ended(143, "Error").Deleting())
                         .Build();

    const Plan plan = scene.Make();

    EXPECT_EQ(ConditionOf(plan, api::kSuspended).status, api::ConditionStatus::kTrue) << row.name;
    EXPECT_THAT(ConditionOf(plan, api::kSuspended).message, HasSubstr(row.said)) << row.name;
    EXPECT_EQ(plan.status.epoch, 0) << row.name;
    EXPECT_EQ(plan.status.start_time, "") << row.name;
    ASSERT_THAT(EventReasons(plan), ElementsAre(api::kEventSuspended)) << row.name;
    EXPECT_FALSE(plan.order.has_value()) << row.name;
    EXPECT_FALSE(plan.events[0].warning) << row.name;
  }
}

TEST(SuspendPlan, TheStepShownIsTheOneItGoesOnFrom) {
  struct Row {
    const char* name;
    bool keeps;
    std::optional<int64_t> checkpoint;
    std::vector<std::string> command;
    int64_t shown;
    int percent;
  };
  const std::vector<std::string> ours = {"ringmaster-train"};
  const std::vector<Row> table = {
      {"a checkpoint of an earlier step", true, 14'553, ours, 14'553, 72},
      {"a later one", true, 15'000, ours, 15'000, 75},
      {"one on the volume, perhaps", true, std::nullopt, ours, 14'676, 73},
      {"nothing is kept", false, std::nullopt, ours, 0, 0},
      {"a program that may keep what it likes", false, std::nullopt, {"solver"}, 14'676, 73},
  };
  for (const Row& row : table) {
    Scene scene = Training();
    scene.job.spec.command = row.command;
    if (row.keeps) scene.job.spec.checkpoint = api::CheckpointSpec{.volume_json = "{}"};
    if (row.checkpoint) scene.job.status.checkpoint = {.step = *row.checkpoint, .time = ""};
    scene.job.status.progress = api::JobProgress{.step = 14'676,
                                                 .total_steps = 20'000,
                                                 .percent = 73,
                                                 .samples_per_second = "900",
                                                 .estimated_completion_time = kLater};
    scene.observed = SceneBuilder(scene.job).With(PodBuilder::Launcher(1).Deleting()).Build();

    const Plan plan = scene.Make();

    ASSERT_TRUE(plan.status.progress.has_value()) << row.name;
    EXPECT_EQ(plan.status.progress->step, row.shown) << row.name;
    EXPECT_EQ(plan.status.progress->percent, row.percent) << row.name;
    EXPECT_EQ(plan.status.progress->samples_per_second, "") << row.name;
    EXPECT_EQ(plan.status.progress->estimated_completion_time, "") << row.name;
    EXPECT_EQ(plan.status.reason, api::kReasonSuspended) << row.name;
  }
}

// A program that saves its state for minutes must not run beside the resumed job's.
TEST(SuspendPlan, AProgramThatStillRunsInADeletedPodIsWaitedForInModeRestart) {
  struct Row {
    const char* name;
    std::function<void(Scene&)> change;
    bool waits;
  };
  const auto worker = [](PodBuilder pod) {
    return [=](Scene& scene) { scene.observed = SceneBuilder(scene.job).With(pod).Build(); };
  };
  const auto began = [](Scene& scene, int seconds_ago) {
    scene.memory.suspension = SuspensionMemory{
        .since = scene.now, .ending_since = scene.now - std::chrono::seconds(seconds_ago)};
  };
  const Row table[] = {
      {"it runs", [](Scene&) {}, true},
      {"for a long time", [&](Scene& scene) { began(scene, 359); }, true},
      {"for too long", [&](Scene& scene) { began(scene, 360); }, false},
      {"it has ended", worker(PodBuilder::Worker(0).Ended(143, "Error").Deleting()), false},
      {"it never ran", worker(PodBuilder::Worker(0).Phase(PodPhase::kPending).Deleting()), false},
      {"its ranks continue in place",
       [](Scene& scene) { scene.job.spec.elasticity_mode = api::ElasticityMode::kInPlace; }, false},
  };
  for (const Row& row : table) {
    Scene scene = Training();
    scene.job.spec.command = {"solver"};
    scene.job.spec.fault_tolerance.stop_grace = std::chrono::seconds(300);
    ASSERT_FALSE(scene.job.spec.InPlace());
    worker(PodBuilder::Worker(0).Phase(PodPhase::kRunning).Deleting())(scene);
    row.change(scene);

    const Plan plan = scene.Make();

    EXPECT_EQ(IsSuspended(plan.status), !row.waits) << row.name;
    EXPECT_EQ(plan.suspending == Suspending::kEnding, row.waits) << row.name;
    EXPECT_EQ(plan.requeue_after.has_value(), row.waits) << row.name;
    scene.job.status = plan.status;
    scene.memory.suspension.reset();
    EXPECT_EQ(IsSuspended(scene.Make().status), !row.waits) << row.name;
  }
}

TEST(SuspendPlan, OnceBegunItIsCarriedThrough) {
  Scene scene = Training();
  scene.job.status = scene.Make().status;
  scene.job.spec.suspend = false;
  ConfirmsTheEnd(scene);
  scene.launcher->status->workers.clear();

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.deletes.size(), 3u);
  EXPECT_FALSE(plan.CreatesPods());
}

TEST(SuspendPlan, AResumedJobGetsNewPodsUnderTheNextTerm) {
  Scene scene = Training();
  scene.observed = SceneBuilder(scene.job).Build();
  scene.job.status = scene.Make().status;
  scene.job.spec.suspend = false;
  scene.launcher.reset();
  // The first launcher's Pod has ended, but still exists.
  scene.observed =
      SceneBuilder(scene.job).With(PodBuilder::Launcher(1).Ended(143, "Error").Deleting()).Build();
  scene.wall_now += std::chrono::hours(2);

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.raise_term, 2);
  EXPECT_EQ(plan.create_launcher, 2);
  EXPECT_EQ(plan.create_workers, (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.status.start_time, "2026-11-20T12:00:00Z");
  EXPECT_THAT(plan.status.failures, IsEmpty());
  EXPECT_EQ(ConditionOf(plan, api::kSuspended).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(plan, api::kSuspended).reason, api::kReasonResumed);
  EXPECT_EQ(ConditionOf(plan, api::kWorkersReady).reason, api::kReasonCreating);
  EXPECT_THAT(EventReasons(plan), ElementsAre(api::kEventResumed));
  EXPECT_FALSE(plan.events[0].warning);
}

// A suspension resets the epoch, but a webhook that rejects the job's Pods may still allow them
// later, a Secret may be back soon, and so may an image.
TEST(SuspendPlan, APassingProblemEndsAResumedJobOnlyIfItHasNeverTrained) {
  struct Row {
    const char* name;
    std::function<void(Scene&)> happens;
  };
  const auto waits = [](const char* reason, const char* message) {
    return [=](Scene& scene) {
      scene.observed = SceneBuilder(scene.job)
                           .Launcher()
                           .With(PodBuilder::Worker(0)
                                     .Waiting(reason, message)
                                     .ScheduledAt("2026-11-20T08:00:00Z"))
                           .Build();
    };
  };
  const Row table[] = {
      {"a webhook rejects a Pod",
       [](Scene& scene) { scene.memory.refusal = Refusal{.cause = RefusalCause::kInvalidPod}; }},
      {"a Secret is missing", waits("CreateContainerConfigError", "secret \"x\" not found")},
      {"an image is missing", waits("ErrImagePull", "r/x:1: not found")},
  };
  for (const Row& row : table) {
    for (const bool trained : {false, true}) {
      for (const bool told : {false, true}) {  // whether the operator knew that it trained
        Scene scene = Training();
        scene.job.status.has_trained = told && trained;
        scene.launcher->status->phase = control::LauncherPhase::kStarting;
        if (trained) scene.launcher->status->progress = control::Progress{.step = 1};
        ConfirmsTheEnd(scene);
        scene.launcher->status->workers.clear();
        scene.job.status = scene.Make().status;
        scene.launcher.reset();
        scene.observed = SceneBuilder(scene.job).Build();
        scene.job.status = scene.Make().status;
        ASSERT_TRUE(IsSuspended(scene.job.status)) << row.name;
        EXPECT_EQ(scene.job.status.epoch, 0) << row.name;
        scene.job.spec.suspend = false;
        scene.job.status = scene.Make().status;
        scene.observed = SceneBuilder(scene.job).Launcher().Build();
        scene.Answers({});
        row.happens(scene);

        const Plan plan = scene.Make();

        EXPECT_EQ(api::IsTrue(plan.status.conditions, api::kFailed), !trained)
            << row.name << ", " << trained << ", " << told;
      }
    }
  }
}

TEST(SuspendPlan, TheClockStandsStillWhileAJobIsSuspended) {
  api::TrainingJob job = Suspended(JobBuilder().Build());
  job.spec.run_policy.active_deadline = std::chrono::seconds(60);
  Scene scene{.job = job, .observed = SceneBuilder(job).Build()};
  scene.job.status = scene.Make().status;
  scene.wall_now += std::chrono::hours(1);

  const Plan plan = scene.Make();

  EXPECT_FALSE(api::IsTerminal(plan.status));
  EXPECT_FALSE(plan.requeue_after.has_value());
}

TEST(SuspendPlan, AJobThatEndedIsNotSuspended) {
  control::Verdict verdict;
  verdict.succeeded = true;
  Scene scene = Training();
  scene.observed =
      SceneBuilder(scene.job).With(PodBuilder::Launcher(1).EndedWith(verdict)).Workers(2).Build();
  scene.job.status.conditions.push_back({.type = api::kSuspended,
                                         .status = api::ConditionStatus::kFalse,
                                         .reason = api::kReasonSuspending});

  const Plan plan = scene.Make();

  EXPECT_TRUE(api::IsTrue(plan.status.conditions, api::kSucceeded));
  EXPECT_EQ(ConditionOf(plan, api::kSuspended).reason, api::kReasonFinished);
}

}  // namespace
}  // namespace ringmaster::job
