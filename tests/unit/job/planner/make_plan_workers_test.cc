#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "operator/job/planner/make_plan.h"
#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::DeletedNames;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;

TEST(Plan, DeletedWorkerIsReplacedAtTheLowestFreeIndex) {
  const api::TrainingJob job = RunningJob();
  const auto observed =
      SceneBuilder(job).Launcher().With(PodBuilder::Worker(0)).With(PodBuilder::Worker(2)).Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  EXPECT_EQ(plan.create_workers, std::vector<int>{1});
}

TEST(Plan, ReplacementNeverWaitsForATerminatingName) {
  const api::TrainingJob job = RunningJob();
  const auto observed = SceneBuilder(job)
                            .Launcher()
                            .With(PodBuilder::Worker(0))
                            .With(PodBuilder::Worker(1).Deleting())
                            .With(PodBuilder::Worker(2))
                            .Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  EXPECT_EQ(plan.create_workers, std::vector<int>{3});
}

TEST(Plan, FailedWorkerIsRecordedDeletedAndReplaced) {
  const api::TrainingJob job = RunningJob();
  const auto observed = SceneBuilder(job)
                            .Launcher()
                            .Workers(2)
                            .With(PodBuilder::Worker(2).Ended(1, "Error", "a\nb\n"))
                            .Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  EXPECT_EQ(DeletedNames(plan), std::vector<std::string>{"digits-worker-2"});
  EXPECT_EQ(plan.create_workers, std::vector<int>{3});
  ASSERT_EQ(plan.status.failures.size(), 1u);
  EXPECT_EQ(plan.status.failures[0].reason, "Error");
  EXPECT_EQ(plan.status.failures[0].last_lines, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, api::kEventWorkerReplaced);
}

TEST(Plan, ThePodsOfAJobOfThousandsAreMadeInParts) {
  const api::TrainingJob job = RunningJob(2500);
  for (const int made : {0, 1000, 2000}) {
    const int next = std::min(1000, 2500 - made);

    const Plan plan =
        Scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(made).Build()}.Make();

    ASSERT_EQ(plan.create_workers.size(), static_cast<std::size_t>(next)) << made;
    EXPECT_EQ(plan.create_workers.front(), made);
    EXPECT_EQ(plan.create_workers.back(), made + next - 1);
    EXPECT_EQ(plan.requeue_after == std::chrono::milliseconds(1), made + next < 2500)
        << "the rest is made at once";
  }
}

TEST(Plan, NamesOfWorkersAreLookedUpOnlyWhereSomeAreCreated) {
  const api::TrainingJob job = RunningJob();
  for (const int workers : {2, 3}) {
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(workers).Build()};
    scene.Answers(RunningWorld(workers));
    int asked = 0;
    scene.observed.name_taken = [&](int) { return ++asked == 0; };

    const Plan plan = scene.Make();

    EXPECT_EQ(plan.create_workers.size(), static_cast<std::size_t>(3 - workers));
    EXPECT_EQ(asked, 3 - workers);
  }
}

TEST(Plan, ThousandsThatEndAtOnceAreDeletedInPartsAndEachIsRecordedOnce) {
  const api::TrainingJob job = RunningJob(1500);
  SceneBuilder builder(job);
  builder.Launcher();
  for (int index = 0; index < 1500; ++index) {
    builder.With(PodBuilder::Worker(index).Ended(1, "Error"));
  }
  Scene scene{.job = job, .observed = builder.Build()};

  const Plan first = scene.Make();
  std::erase_if(scene.observed.failed, [](const PodPtr& pod) { return pod->index < 1000; });
  scene.job.status = first.status;
  const Plan second = scene.Make();

  EXPECT_EQ(first.deletes.size(), 1000U);
  EXPECT_EQ(first.requeue_after, std::chrono::milliseconds(1));
  EXPECT_EQ(second.deletes.size(), 500U);
  EXPECT_EQ(second.deletes.front().name, "digits-worker-1000");
  EXPECT_EQ(second.status.failures.front().worker, "digits-worker-1499");
  ASSERT_EQ(first.events.size(), api::kMaxFailures + 1);
  EXPECT_EQ(first.events.back().note, "984 more workers ended or were lost; others replace them");
  for (const PlannedEvent& event : first.events) EXPECT_TRUE(event.warning) << event.note;

  std::erase_if(scene.observed.failed, [](const PodPtr& pod) { return pod->index >= 1016; });
  EXPECT_EQ(scene.Make().events.size(), api::kMaxFailures) << "all are named";
}

TEST(Plan, AnEventReportsHowAWorkerEnded) {
  const std::pair<PodBuilder, const char*> table[] = {
      {PodBuilder::Worker(2).Ended(1, "Error"),
       "WorkerReplaced: digits-worker-2 on node node-1 ended with exit code 1 (Error); another "
       "worker replaces it"},
      {PodBuilder::Worker(2).Ended(control::kExitDeviceUnhealthy, "Error", "GPU-7: Xid 79"),
       "DeviceUnhealthy: digits-worker-2 on node node-1 has an unhealthy GPU: GPU-7: Xid 79. "
       "Another worker replaces it"},
      {PodBuilder::Worker(2).Ended(137, "OOMKilled"),
       "OOMKilled: digits-worker-2 on node node-1 ran out of memory: the container has no memory "
       "limit, so its node or Pod ran out of memory; set spec.worker.resources.requests.memory (or "
       "the request in spec.worker.template). Another worker replaces it"},
  };
  for (const auto& [worker, event] : table) {
    const api::TrainingJob job = RunningJob();

    const Plan plan =
        Scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).With(worker).Build()}
            .Make();

    ASSERT_FALSE(plan.events.empty()) << event;
    EXPECT_EQ(plan.events[0].reason + ": " + plan.events[0].note, event);
  }
}

// Tests a worker that has never existed, for example because the API server rejected it before.
TEST(Plan, AWorkerThatIsCreatedForTheFirstTimeIsNoReplacement) {
  api::TrainingJob job = RunningJob();
  job.status.workers = {.desired = 3, .replicas = 2, .ready = 2, .members = 2};

  const Plan plan =
      Scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()}.Make();

  EXPECT_EQ(plan.create_workers, std::vector<int>{2});
  EXPECT_TRUE(plan.events.empty());
}

TEST(Plan, WorkersThatOthersTakeAwayAreNamedWithTheirNodeAndTheCause) {
  struct Row {
    const char* name;
    std::function<void(SceneBuilder&)> after;
    const char* note;
  };
  const std::vector<Row> table = {
      {"deleted", [](SceneBuilder& scene) { scene.With(PodBuilder::Worker(2).Deleting()); },
       "digits-worker-2 on node node-1 is being deleted; another worker replaces it"},
      {"evicted",
       [](SceneBuilder& scene) {
         scene.With(PodBuilder::Worker(2).Disrupted("EvictionByEvictionAPI"));
       },
       "digits-worker-2 on node node-1 is being disrupted (EvictionByEvictionAPI); another worker "
       "replaces it"},
      {"force-deleted", [](SceneBuilder&) {},
       "digits-worker-2 on node node-1 was deleted; another worker replaces it"},
  };
  for (const Row& row : table) {
    api::TrainingJob job = RunningJob();
    job.status.workers = {.desired = 3, .replicas = 3, .ready = 3, .members = 3};
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
    Remember(scene.observed, scene.launcher, scene.now, scene.memory);
    SceneBuilder after(job);
    after.Launcher().Workers(2);
    row.after(after);
    scene.observed = after.Build();
    Remember(scene.observed, scene.launcher, scene.now, scene.memory);

    const Plan plan = scene.Make();

    ASSERT_EQ(plan.events.size(), 1u) << row.name;
    EXPECT_TRUE(plan.events[0].warning) << row.name;
    EXPECT_EQ(plan.events[0].reason, api::kEventWorkerReplaced) << row.name;
    EXPECT_EQ(plan.events[0].note, row.note);
  }
}

TEST(Plan, OfManyWorkersThatOthersTakeAwayFiveAreNamed) {
  api::TrainingJob job = RunningJob(8);
  job.status.workers = {.desired = 8, .replicas = 8, .ready = 8, .members = 8};
  for (const int gone : {5, 7}) {
    SceneBuilder builder(job);
    builder.Launcher().Workers(8 - gone);
    for (int index = 8 - gone; index < 8; ++index) {
      builder.With(PodBuilder::Worker(index).Deleting());
    }

    const Plan plan = Scene{.job = job, .observed = builder.Build()}.Make();

    ASSERT_EQ(plan.events.size(), 1u);
    const std::string& note = plan.events[0].note;
    EXPECT_EQ(std::ranges::count(note, ','), 4) << note;
    EXPECT_EQ(note.find(" and 2 more") != std::string::npos, gone == 7) << note;
    EXPECT_EQ(note.find(" more") != std::string::npos, gone == 7) << note;
    EXPECT_TRUE(note.ends_with("; " + std::to_string(gone) + " others replace them")) << note;
  }
}

TEST(Plan, OtherProgramsShrinkAtOnce) {
  api::TrainingJob job = RunningJob(1);
  job.spec.command = {"mpi-solver"};
  job.status.epoch = 4;
  const auto observed = SceneBuilder(job).Launcher().Workers(3).Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  EXPECT_EQ(DeletedNames(plan), (std::vector<std::string>{"digits-worker-2", "digits-worker-1"}));
  EXPECT_TRUE(plan.marks.empty());
  ASSERT_TRUE(plan.order.has_value());
  ASSERT_EQ(plan.order->workers.size(), 1u);
  EXPECT_EQ(plan.order->workers[0].pod, "digits-worker-0");
  EXPECT_EQ(plan.order->replicas, 1);
}

TEST(Plan, AnEventReportsAResize) {
  api::TrainingJob job = RunningJob(5);
  job.status.workers.desired = 3;
  job.status.workers.replicas = 3;

  const Plan plan =
      Scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()}.Make();

  EXPECT_EQ(plan.create_workers, (std::vector<int>{3, 4}));
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_FALSE(plan.events[0].warning);
  EXPECT_EQ(plan.events[0].note, "from 3 to 5 workers");
}

TEST(Plan, WorkersThatFinishedUnderThisLauncherWaitForItsVerdict) {
  const api::TrainingJob job = RunningJob();
  const auto observed = SceneBuilder(job)
                            .Launcher()
                            .With(PodBuilder::Worker(0).Ended(0, "Completed"))
                            .With(PodBuilder::Worker(1))
                            .With(PodBuilder::Worker(2))
                            .Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  EXPECT_FALSE(plan.CreatesPods());
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_EQ(plan.order->workers.size(), 3u);
}

TEST(Plan, AWorkerThatLeftARunningJobIsReplaced) {
  const api::TrainingJob job = RunningJob();
  Scene scene{.job = job,
              .observed = SceneBuilder(job)
                              .Launcher()
                              .Workers(2)
                              .With(PodBuilder::Worker(2).Ended(0, "Completed"))
                              .Build()};
  scene.Answers(RunningWorld(3));
  scene.launcher->status->workers[2].drained = true;

  const Plan left = scene.Make();
  scene.launcher->status->phase = control::LauncherPhase::kFinished;
  const Plan finished = scene.Make();

  EXPECT_EQ(left.create_workers, std::vector<int>{3});
  EXPECT_EQ(DeletedNames(left), std::vector<std::string>{"digits-worker-2"});
  EXPECT_EQ(left.order->dead, std::vector<std::string>{"uid-worker-2"});
  EXPECT_FALSE(finished.CreatesPods());
}

TEST(Plan, WorkersThatFinishedUnderALostLauncherAreReplaced) {
  const api::TrainingJob job = RunningJob();
  for (const char* finished : {"2026-11-20T09:59:00Z", "2026-11-20T10:00:00Z"}) {
    const auto observed = SceneBuilder(job)
                              .Launcher()  // made at 10:00
                              .With(PodBuilder::Worker(0).Ended(0, "Completed", "", finished))
                              .With(PodBuilder::Worker(1))
                              .With(PodBuilder::Worker(2))
                              .Build();

    const Plan plan = Scene{.job = job, .observed = observed}.Make();

    EXPECT_EQ(plan.create_workers, std::vector<int>{3});
    EXPECT_EQ(DeletedNames(plan), std::vector<std::string>{"digits-worker-0"});
  }
}

TEST(Plan, WorkersThatFinishedStayWhileThereIsNoLauncher) {
  const api::TrainingJob job = RunningJob();
  const auto observed =
      SceneBuilder(job).Workers(2).With(PodBuilder::Worker(2).Ended(0, "Completed")).Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  EXPECT_TRUE(plan.create_workers.empty());
  EXPECT_TRUE(plan.deletes.empty());
}

// If the kubelet's clock is behind the API server's, the launcher's report decides.
TEST(Plan, AMemberOfThisLaunchersWorldFinishedUnderItWhateverTheClocksSay) {
  const api::TrainingJob job = RunningJob();
  Scene scene{
      .job = job,
      .observed = SceneBuilder(job)
                      .Launcher()
                      .Workers(2)
                      .With(PodBuilder::Worker(2).Ended(0, "Completed", "", "2026-11-20T09:59:00Z"))
                      .Build()};
  scene.Answers(RunningWorld(3));

  const Plan plan = scene.Make();

  EXPECT_FALSE(plan.CreatesPods());
  EXPECT_TRUE(plan.deletes.empty());
}

}  // namespace
}  // namespace ringmaster::job
