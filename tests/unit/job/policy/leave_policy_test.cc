#include "operator/job/policy/leave_policy.h"

#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::DeletedNames;
using ringmaster::testing::EventReasons;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::OrderedNames;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using Strings = std::vector<std::string>;

Strings MarkedNames(const Plan& plan) {
  Strings names;
  for (const PodMark& mark : plan.marks) names.push_back(mark.name);
  return names;
}

Scene Shrinking(int workers, int replicas) {
  const api::TrainingJob job = RunningJob(replicas);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(workers).Build()};
  scene.Answers(RunningWorld(workers));
  return scene;
}

// Returns a job that needs two workers and has three, the third of which is marked to leave.
Scene WithMarkedLeaver() {
  Scene scene = Shrinking(2, 2);
  scene.observed = SceneBuilder(scene.job)
                       .Launcher()
                       .Workers(2)
                       .With(PodBuilder::Worker(2).Leaving("ScalingDown"))
                       .Build();
  return scene;
}

TEST(LeavePolicy, TheLeastNeededGoFirst) {
  struct Row {
    const char* why;
    std::function<void(control::LauncherStatus&)> change;
    Strings marked;  // the two of four workers that leave
  };
  const Row table[] = {
      {"the youngest", [](auto&) {}, {"digits-worker-3", "digits-worker-2"}},
      {"not ready",
       [](auto& answer) { answer.workers[0].ready = false; },
       {"digits-worker-0", "digits-worker-3"}},
      {"no report",
       [](auto& answer) { answer.workers.erase(answer.workers.begin() + 1); },
       {"digits-worker-1", "digits-worker-3"}},
      {"a fault",
       [](auto& answer) {
         answer.workers[1].faults = {{"sshd", "none"}};
       },
       {"digits-worker-1", "digits-worker-3"}},
      {"no members yet",
       [](auto& answer) { answer.workers[0].member = answer.workers[1].member = false; },
       {"digits-worker-1", "digits-worker-0"}},
      {"a straggler before the youngest",
       [](auto& answer) {
         answer.stragglers = {{.pod_uid = "uid-worker-1", .step_millis = 90, .median_millis = 40}};
       },
       {"digits-worker-1", "digits-worker-3"}},
      {"the slowest of the stragglers first",
       [](auto& answer) {
         answer.stragglers = {{.pod_uid = "uid-worker-0", .step_millis = 70, .median_millis = 40},
                              {.pod_uid = "uid-worker-1", .step_millis = 90, .median_millis = 40},
                              {.pod_uid = "uid-worker-0", .step_millis = 95, .median_millis = 40}};
       },
       {"digits-worker-0", "digits-worker-1"}},
      {"who does nothing before a straggler",
       [](auto& answer) {
         answer.workers[0].ready = false;
         answer.workers[2].member = false;
         answer.stragglers = {{.pod_uid = "uid-worker-1", .step_millis = 90, .median_millis = 40}};
       },
       {"digits-worker-0", "digits-worker-2"}},
      {"not ready before no member",
       [](auto& answer) {
         answer.workers[0].ready = false;
         answer.workers[1].member = false;
       },
       {"digits-worker-0", "digits-worker-1"}},
  };
  for (const Row& row : table) {
    Scene scene = Shrinking(4, 2);
    row.change(*scene.launcher->status);

    const Plan plan = scene.Make();

    EXPECT_EQ(MarkedNames(plan), row.marked) << row.why;
    EXPECT_TRUE(plan.deletes.empty()) << row.why;
  }
}

TEST(LeavePolicy, APodThatDoesNotRunGoesBeforeAllOthers) {
  const api::TrainingJob job = RunningJob(1);
  Scene scene{.job = job,
              .observed = SceneBuilder(job)
                              .Launcher()
                              .With(PodBuilder::Worker(0).Phase(PodPhase::kPending))
                              .With(PodBuilder::Worker(1))
                              .Build()};

  EXPECT_EQ(MarkedNames(scene.Make()), Strings{"digits-worker-0"});
}

TEST(LeavePolicy, AWorkerStaysInTheOrderUntilItsMarkIsSeen) {
  const Plan choosing = Shrinking(3, 2).Make();
  Scene scene = WithMarkedLeaver();
  scene.Answers(RunningWorld(3));
  const Plan marked = scene.Make();

  ASSERT_EQ(choosing.marks.size(), 1u);
  EXPECT_EQ(choosing.marks[0].uid, "uid-worker-2");
  EXPECT_EQ(choosing.marks[0].resource_version, "50");
  EXPECT_EQ(choosing.marks[0].reason, api::kReasonScalingDown);
  EXPECT_EQ(OrderedNames(choosing).size(), 3u);
  EXPECT_TRUE(marked.marks.empty()) << "no second one";
  EXPECT_EQ(OrderedNames(marked), (Strings{"digits-worker-0", "digits-worker-1"}));
  EXPECT_TRUE(marked.deletes.empty()) << "it is not drained";
}

void Overdue(Scene& scene) { scene.memory.leaving_since["uid-worker-2"] = scene.now - kDrainLimit; }

// Replaces the launcher with one of the next term. No worker has connected to the new launcher.
void TakesOver(Scene& scene, control::LauncherPhase phase) {
  scene.launcher->status->phase = phase;
  scene.launcher->status->epoch = {};
  scene.launcher->status->workers.clear();
}

TEST(LeavePolicy, AMarkedPodGoesWhenNothingOfItIsNeeded) {
  struct Row {
    const char* why;
    std::function<void(Scene&)> change;
    Leave judged;
  };
  const auto report = [](Scene& scene) -> control::WorkerReport& {
    return scene.launcher->status->workers[2];
  };
  const Row table[] = {
      {"a member that was not told", [](Scene&) {}, Leave::kWait},
      {"a member that was told",
       [](Scene& s) {
         s.Ordered({0, 1});
       },
       Leave::kWait},
      {"drained", [&](Scene& s) { report(s).drained = true; }, Leave::kGo},
      {"fenced", [&](Scene& s) { report(s).fenced = true; }, Leave::kGo},
      {"never ready, and the launcher knows",
       [&](Scene& s) {
         report(s).ready = report(s).member = false;
         s.Ordered({0, 1});
       },
       Leave::kGo},
      {"never ready, but still ordered",
       [&](Scene& s) {
         report(s).ready = report(s).member = false;
         s.Ordered({0, 1, 2});
       },
       Leave::kWait},
      {"ready, though no member and not ordered",
       [&](Scene& s) {
         report(s).member = false;
         s.Ordered({0, 1});
       },
       Leave::kWait},
      {"drained out of a world that no status has yet",
       [&](Scene& s) {
         s.job.status.epoch = 0;
         report(s).drained = true;
       },
       Leave::kGo},
      {"unknown to the launcher",
       [](Scene& s) {
         s.launcher->status->workers.pop_back();
         s.Ordered({0, 1});
       },
       Leave::kGo},
      {"no world yet and no launcher",
       [](Scene& s) {
         s.launcher.reset();
         s.job.status.epoch = 0;
       },
       Leave::kGo},
      {"the launcher is being replaced", [](Scene& s) { s.launcher.reset(); }, Leave::kWait},
      {"another program", [](Scene& s) { s.job.spec.command = {"solver"}; }, Leave::kGo},
      {"just before 30 s after its mark",
       [](Scene& s) {
         s.memory.leaving_since["uid-worker-2"] = s.now - std::chrono::milliseconds(29'999);
       },
       Leave::kWait},
      {"30 s after its mark",
       [](Scene& s) { s.memory.leaving_since["uid-worker-2"] = s.now - std::chrono::seconds(30); },
       Leave::kOverdue},
      {"a new launcher has no world yet",
       [](Scene& s) {
         TakesOver(s, control::LauncherPhase::kWaitingForAgents);
         s.Ordered({0, 1});
       },
       Leave::kWait},
      {"a new launcher adopts a world",
       [](Scene& s) {
         TakesOver(s, control::LauncherPhase::kAdopting);
         s.launcher->status->epoch = {2, 5};
         s.Ordered({0, 1});
       },
       Leave::kWait},
      {"there has never been a world",
       [](Scene& s) {
         TakesOver(s, control::LauncherPhase::kWaitingForAgents);
         s.job.status.epoch = 0;
         s.Ordered({0, 1});
       },
       Leave::kGo},
      {"overdue, and a new launcher has no world yet",
       [](Scene& s) {
         TakesOver(s, control::LauncherPhase::kWaitingForAgents);
         Overdue(s);
       },
       Leave::kHeld},
      {"overdue, and it is the only one that trains",
       [](Scene& s) {
         for (std::size_t other : {0u, 1u}) s.launcher->status->workers[other].member = false;
         Overdue(s);
       },
       Leave::kHeld},
      {"overdue, and the other members are not heard",
       [](Scene& s) {
         for (std::size_t other : {0u, 1u}) s.launcher->status->workers[other].ready = false;
         Overdue(s);
       },
       Leave::kHeld},
      {"overdue, and the launcher is not heard",
       [](Scene& s) {
         s.Silent(std::chrono::seconds(2));
         Overdue(s);
       },
       Leave::kHeld},
      {"overdue, and there has never been a world",
       [](Scene& s) {
         s.job.status.epoch = 0;
         s.launcher->status->epoch = {};
         for (auto& worker : s.launcher->status->workers) worker.member = false;
         Overdue(s);
       },
       Leave::kOverdue},
  };
  for (const Row& row : table) {
    Scene scene = WithMarkedLeaver();
    scene.job.status.epoch = 1;
    scene.Answers(RunningWorld(3));
    row.change(scene);

    const Plan plan = scene.Make();

    const PodView& leaver = *scene.observed.live[2];
    EXPECT_EQ(JudgeLeaver(leaver, scene.job, Reports(scene.Input()),
                          scene.memory.LeavingSince(leaver.uid), scene.now),
              row.judged)
        << row.why;
    const bool stays = row.judged == Leave::kWait || row.judged == Leave::kHeld;
    EXPECT_EQ(plan.deletes.empty(), stays) << row.why;
    const Strings events = EventReasons(plan);
    EXPECT_EQ(std::count(events.begin(), events.end(), api::kEventNotDrained),
              row.judged == Leave::kOverdue || row.judged == Leave::kHeld ? 1 : 0)
        << row.why;
    EXPECT_EQ(OrderedNames(plan), (Strings{"digits-worker-0", "digits-worker-1"})) << row.why;
    EXPECT_EQ(plan.drain_held, row.judged == Leave::kHeld) << row.why;
    if (stays) {
      EXPECT_TRUE(plan.requeue_after && *plan.requeue_after <= kDrainLimit) << row.why;
    }
  }
}

TEST(LeavePolicy, TheWaitForALeaverIsAnnouncedOnce) {
  Scene scene = WithMarkedLeaver();
  scene.Silent(std::chrono::seconds(2));
  Overdue(scene);
  scene.memory.announced_drain = true;

  const Strings events = EventReasons(scene.Make());

  EXPECT_EQ(std::count(events.begin(), events.end(), api::kEventNotDrained), 0);
}

TEST(LeavePolicy, NoLeaverIsChosenWithoutTheLaunchersReport) {
  struct Row {
    const char* why;
    std::function<void(Scene&)> change;
    Strings marked;
  };
  const Row table[] = {
      {"it answers", [](Scene&) {}, {"digits-worker-2"}},
      {"it is silent", [](Scene& s) { s.Silent(std::chrono::seconds(2)); }, {}},
      {"it has not answered yet", [](Scene& s) { s.launcher.reset(); }, {}},
      {"there is no world to lose",
       [](Scene& s) {
         s.launcher.reset();
         s.job.status.epoch = 0;
       },
       {"digits-worker-2"}},
  };
  for (const Row& row : table) {
    Scene scene = Shrinking(3, 2);
    scene.job.status.epoch = 1;
    row.change(scene);

    const Plan plan = scene.Make();

    EXPECT_EQ(MarkedNames(plan), row.marked) << row.why;
    EXPECT_TRUE(plan.deletes.empty()) << row.why;
    if (row.marked.empty()) {
      EXPECT_LE(plan.requeue_after, std::chrono::seconds(1)) << row.why;
      EXPECT_TRUE(plan.requeue_after.has_value()) << row.why;
    }
  }
}

TEST(LeavePolicy, NoReportIsAwaitedIfAllStay) {
  Scene scene = Shrinking(3, 3);
  scene.job.status.epoch = 1;
  scene.launcher.reset();

  EXPECT_FALSE(scene.Make().requeue_after.has_value());
}

TEST(LeavePolicy, GrowingAgainMakesANewOneBesideTheMarkedOne) {
  const api::TrainingJob job = RunningJob(3);
  Scene scene{.job = job,
              .observed = SceneBuilder(job)
                              .Launcher()
                              .Workers(2)
                              .With(PodBuilder::Worker(2).Leaving("ScalingDown"))
                              .Build()};
  scene.Answers(RunningWorld(3));

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.create_workers, std::vector<int>{3});
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_TRUE(plan.marks.empty());
}

}  // namespace
}  // namespace ringmaster::job
