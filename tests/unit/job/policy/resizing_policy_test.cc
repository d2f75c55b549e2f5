#include "operator/job/policy/resizing_policy.h"

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/conditions.h"
#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using control::LauncherPhase;
using ringmaster::testing::EventReasons;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;

std::string Resizing(const api::TrainingJobStatus& status) {
  const api::Condition* condition = api::FindCondition(status.conditions, api::kResizing);
  if (condition == nullptr) return "";
  return (condition->status == api::ConditionStatus::kTrue ? "True " : "False ") +
         condition->reason;
}

// Returns a job that has all three workers, with a status that reports them.
Scene Stable() {
  const api::TrainingJob job = RunningJob(3);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers(RunningWorld(3));
  scene.job.status = scene.Make().status;
  return scene;
}

void LoseMember(Scene& scene, LauncherPhase phase) {
  scene.launcher->status->workers[2].member = false;
  scene.launcher->status->phase = phase;
}

TEST(ResizingPolicy, ReportsWhyTheWorldIsNotWhatIsWanted) {
  struct Row {
    const char* condition;
    std::function<void(Scene&)> change;
  };
  const Row table[] = {
      {"False Stable", [](Scene&) {}},
      {"True WorkerLost", [](Scene& s) { LoseMember(s, LauncherPhase::kRunning); }},
      {"True WorkerLost", [](Scene& s) { s.launcher->status->phase = LauncherPhase::kForming; }},
      {"True WorkerLost",
       [](Scene& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Ended(137, "Error"))
                          .Build();
         LoseMember(s, LauncherPhase::kRunning);
       }},
      {"True ScalingUp", [](Scene& s) { s.job.spec.worker.replicas = 4; }},
      {"True ScalingDown", [](Scene& s) { s.job.spec.worker.replicas = 2; }},
      {"True ScalingDown", [](Scene& s) { s.Answers(RunningWorld(4)); }},
      {"True WorkerLost",  // the status already lists the failure
       [](Scene& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Deleting())
                          .Build();
         s.job.status.failures = {{.pod_uid = "uid-worker-2", .reason = "Error"}};
         LoseMember(s, LauncherPhase::kRunning);
       }},
      {"True WorkerLost",  // the operator has marked the lost worker
       [](Scene& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Leaving("x").Deleting())
                          .Build();
         LoseMember(s, LauncherPhase::kRunning);
       }},
      {"True Draining",
       [](Scene& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Deleting())
                          .Build();
         LoseMember(s, LauncherPhase::kRunning);
       }},
      {"True Draining",
       [](Scene& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Leaving(api::kReasonNodeNotReady))
                          .Build();
         s.launcher->status->phase = LauncherPhase::kForming;
       }},
      {"True ScalingDown",
       [](Scene& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Leaving(api::kReasonScalingDown))
                          .Build();
         s.launcher->status->phase = LauncherPhase::kForming;
       }},
      // The reason of an earlier change must not be reused.
      {"True WorkerLost",
       [](Scene& s) {
         LoseMember(s, LauncherPhase::kForming);
         s.launcher->status->pause_reason = control::kPauseNoQuorum;
       }},
      {"True NoQuorum",
       [](Scene& s) {
         LoseMember(s, LauncherPhase::kPaused);
         s.launcher->status->pause_reason = control::kPauseNoQuorum;
       }},
      {"True BelowMinReplicas",
       [](Scene& s) {
         LoseMember(s, LauncherPhase::kPaused);
         s.launcher->status->pause_reason = control::kPauseBelowMinReplicas;
       }},
      {"True LauncherReplaced",
       [](Scene& s) { s.launcher->status->phase = LauncherPhase::kAdopting; }},
      // Without the launcher's answer, the condition does not change.
      {"False Stable", [](Scene& s) { s.launcher.reset(); }},
  };
  for (const Row& row : table) {
    Scene scene = Stable();
    ASSERT_EQ(Resizing(scene.job.status), "False Stable");
    row.change(scene);

    EXPECT_EQ(Resizing(scene.Make().status), row.condition);
  }
}

TEST(ResizingPolicy, ThereIsNoConditionBeforeTheFirstWorld) {
  const api::TrainingJob job = RunningJob(3);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
  scene.Answers({});
  scene.launcher->status->phase = LauncherPhase::kWaitingForAgents;

  EXPECT_EQ(Resizing(scene.Make().status), "");
}

TEST(ResizingPolicy, TheReasonLastsUntilTheWorldIsComplete) {
  Scene scene = Stable();
  scene.job.spec.worker.replicas = 4;
  scene.job.status = scene.Make().status;
  scene.launcher->status->phase = LauncherPhase::kForming;

  const api::TrainingJobStatus forming = scene.Make().status;
  scene.job.status = forming;
  scene.Answers(RunningWorld(4));

  EXPECT_EQ(Resizing(forming), "True ScalingUp");
  EXPECT_EQ(Resizing(scene.Make().status), "False Stable");
}

TEST(ResizingPolicy, AJobOfOneWorkerGrows) {
  const api::TrainingJob job = RunningJob(1);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
  scene.Answers(RunningWorld(1));
  scene.job.status = scene.Make().status;
  scene.job.spec.worker.replicas = 2;

  EXPECT_EQ(Resizing(scene.Make().status), "True ScalingUp");
}

TEST(ResizingPolicy, AResumedJobGrowsFromNoWorkers) {
  Scene scene = Stable();
  for (api::Condition& condition : scene.job.status.conditions) {
    if (condition.type == api::kResizing) condition.reason = api::kReasonSuspended;
  }
  scene.launcher->status->phase = LauncherPhase::kForming;
  for (auto& worker : scene.launcher->status->workers) worker.member = false;

  scene.job.status = scene.Make().status;
  ASSERT_EQ(Resizing(scene.job.status), "True ScalingUp");
  scene.launcher->status->workers[0].member = true;
  EXPECT_EQ(Resizing(scene.Make().status), "True ScalingUp");
}

TEST(ResizingPolicy, StateInOneWord) {
  Scene scene = Stable();
  EXPECT_EQ(scene.Make().status.state, api::kStateRunning);
  for (const LauncherPhase phase : {LauncherPhase::kForming, LauncherPhase::kAdopting}) {
    scene.launcher->status->phase = phase;
    EXPECT_EQ(scene.Make().status.state, api::kStateRunning) << control::ToString(phase);
  }
  scene.launcher->status->phase = LauncherPhase::kPaused;
  scene.launcher->status->pause_reason = control::kPauseNoQuorum;
  scene.launcher->status->message = "waiting for 2 of 3 workers";

  const Plan paused = scene.Make();

  EXPECT_EQ(paused.status.state, api::kStatePaused);
  EXPECT_FALSE(api::IsTrue(paused.status.conditions, api::kRunning));
  EXPECT_EQ(EventReasons(paused), std::vector<std::string>{control::kPauseNoQuorum});
  EXPECT_TRUE(paused.events.at(0).warning);
  EXPECT_EQ(api::FindCondition(paused.status.conditions, api::kResizing)->message,
            "waiting for 2 of 3 workers");
}

TEST(ResizingPolicy, ARecoveryIsReportedOnceWithItsTimes) {
  Scene scene = Stable();
  control::Recovery recovery;
  recovery.epoch = {1, 2};
  recovery.cause = "RankKilled";
  recovery.pod = "digits-worker-1";
  recovery.node = "node-1";
  recovery.detected_millis = 12;
  recovery.resumed_millis = 90;
  scene.launcher->status->last_recovery = recovery;

  const Plan first = scene.Make();
  scene.job.status = first.status;
  const Plan second = scene.Make();

  ASSERT_TRUE(first.status.last_recovery.has_value());
  EXPECT_EQ(first.status.last_recovery->worker, "digits-worker-1");
  EXPECT_EQ(first.status.last_recovery->resumed_millis, 90);
  ASSERT_EQ(first.events.size(), 1u);
  EXPECT_FALSE(first.events[0].warning);
  EXPECT_EQ(first.events[0].reason, api::kEventRecovered);
  EXPECT_EQ(first.events[0].note,
            "training resumed in epoch 2 after the loss of digits-worker-1 on node node-1 "
            "(RankKilled): detected after 12 ms, training 90 ms later; no step was lost");
  EXPECT_TRUE(second.events.empty());
  EXPECT_FALSE(second.write_status);
}

TEST(ResizingPolicy, ARecoveryReportsHowManyStepsWereLost) {
  for (const auto& [lost, text] :
       {std::pair{1, "later; 1 step was lost"}, {2, "later; 2 steps were lost"}}) {
    Scene scene = Stable();
    scene.launcher->status->last_recovery =
        control::Recovery{.epoch = {1, 2}, .cause = "RankKilled", .steps_lost = lost};

    const Plan plan = scene.Make();

    ASSERT_EQ(plan.events.size(), 1u);
    EXPECT_TRUE(plan.events[0].note.ends_with(text)) << plan.events[0].note;
    EXPECT_TRUE(plan.events[0].note.starts_with("training resumed in epoch 2 (RankKilled): "))
        << plan.events[0].note;
  }
}

TEST(ResizingPolicy, AProgramsUptimeHasTwoUnits) {
  const std::pair<int64_t, const char*> table[] = {{0, " restarts from its beginning:"},
                                                   {1, " for 0 s:"},
                                                   {59'000, " for 59 s:"},
                                                   {60'000, " for 1 min 0 s:"},
                                                   {3'599'000, " for 59 min 59 s:"},
                                                   {3'600'000, " for 1 h 0 min:"},
                                                   {7'265'000, " for 2 h 1 min:"}};
  for (const auto& [ran_millis, text] : table) {
    Scene scene = Stable();
    scene.job.spec.command = {"mpi-solver"};
    scene.launcher->status->last_recovery = control::Recovery{
        .epoch = {1, 2}, .cause = "PodGone", .from_start = true, .ran_millis = ran_millis};

    const Plan plan = scene.Make();

    ASSERT_EQ(plan.events.size(), 1u);
    EXPECT_NE(plan.events[0].note.find(text), std::string::npos) << plan.events[0].note;
  }
}

TEST(ResizingPolicy, ARankThatEndedDidNotChangeTheWorld) {
  for (const char* cause : {"RankExited", "RankKilled", "Stalled"}) {
    Scene scene = Stable();
    scene.job.spec.command = {"mpi-solver"};
    scene.launcher->status->last_recovery =
        control::Recovery{.epoch = {1, 2}, .cause = cause, .from_start = true, .ran_millis = 4000};

    const Plan plan = scene.Make();

    ASSERT_EQ(plan.events.size(), 1u);
    EXPECT_EQ(plan.events[0].note,
              std::string("the program restarts from its beginning after running for 4 "
                          "s: ") +
                  cause);
  }
}

TEST(ResizingPolicy, ARestartNamesTheRankThatEndedOrHung) {
  struct Row {
    const char* cause;
    control::RankExit end;
    const char* text;
  };
  control::RankExit end{.rank = 1, .pod_uid = "uid-worker-1", .pod = "digits-worker-1"};
  end.node = "node-1";
  end.start = "epoch 1";
  control::RankExit exited = end;
  exited.exit_code = 3;
  exited.last_lines = {"no column label"};
  control::RankExit killed = end;
  killed.signal = 11;
  control::RankExit of_memory = end;
  of_memory.out_of_memory.emplace();
  control::RankExit hung = end;
  hung.last_lines = {"no rank printed anything for 20 s"};
  for (const Row& row :
       {Row{"RankExited", exited,
            "RankExited (rank 1 on digits-worker-1 on node node-1 ended with exit "
            "code 3; last output: no column label)"},
        Row{"RankKilled", killed,
            "RankKilled (rank 1 on digits-worker-1 on node node-1 was killed by "
            "signal 11)"},
        Row{"OOMKilled", of_memory,
            "OOMKilled (rank 1 on digits-worker-1 on node node-1 ran out of memory)"},
        Row{"Stalled", hung,
            "Stalled (rank 1 on digits-worker-1 on node node-1: no rank printed "
            "anything for 20 s)"},
        Row{"PodGone", hung, "its world changed, PodGone (digits-worker-1 on node node-1)"}}) {
    Scene scene = Stable();
    scene.job.spec.command = {"mpi-solver"};
    scene.launcher->status->failures = {row.end};
    scene.launcher->status->last_recovery = control::Recovery{.epoch = {1, 2},
                                                              .cause = row.cause,
                                                              .pod = "digits-worker-1",
                                                              .node = "node-1",
                                                              .from_start = true,
                                                              .ran_millis = 4000};

    const Plan plan = scene.Make();

    ASSERT_FALSE(plan.events.empty());
    EXPECT_THAT(plan.events.back().note,
                ::testing::StartsWith("the program restarts from its beginning after running for 4 "
                                      "s: " +
                                      std::string(row.text)));
  }
}

TEST(ResizingPolicy, ARestartIsNotExplainedByAnEarlierOne) {
  Scene scene = Stable();
  scene.job.spec.command = {"mpi-solver"};
  control::RankExit end{.rank = 1, .pod_uid = "uid-worker-1", .pod = "digits-worker-1"};
  end.start = "epoch 1";
  end.exit_code = 3;
  scene.launcher->status->failures = {end};
  const auto restart = [&scene](int64_t epoch) -> std::string {
    scene.launcher->status->last_recovery = control::Recovery{.epoch = {1, epoch},
                                                              .cause = "RankExited",
                                                              .pod = "digits-worker-1",
                                                              .from_start = true,
                                                              .ran_millis = 4000};
    const Plan plan = scene.Make();
    scene.job.status = plan.status;
    return plan.events.empty() ? "" : plan.events.back().note;
  };

  EXPECT_THAT(restart(2), ::testing::HasSubstr("ended with exit code 3"));
  EXPECT_THAT(restart(3), ::testing::EndsWith(": RankExited (digits-worker-1)"));
}

TEST(ResizingPolicy, AProgramsRestartIsAWarningAndAFailureWithItsCause) {
  Scene scene = Stable();
  scene.job.spec.command = {"mpi-solver"};
  scene.launcher->status->last_recovery = control::Recovery{.epoch = {1, 2},
                                                            .cause = "PodGone",
                                                            .pod = "digits-worker-1",
                                                            .node = "node-1",
                                                            .detected_millis = 12,
                                                            .resumed_millis = 2300,
                                                            .from_start = true,
                                                            .ran_millis = 723'000};

  const Plan first = scene.Make();
  scene.job.status = first.status;
  const Plan second = scene.Make();

  const std::string text =
      "the program restarts from its beginning after running for 12 min 3 s: its world changed, "
      "PodGone (digits-worker-1 on node node-1)";
  ASSERT_EQ(first.events.size(), 1u);
  EXPECT_TRUE(first.events[0].warning);
  EXPECT_EQ(first.events[0].reason, api::kReasonProgramRestarted);
  EXPECT_EQ(first.events[0].note, text);
  ASSERT_EQ(first.status.failures.size(), 1u);
  EXPECT_EQ(first.status.failures[0].reason, api::kReasonProgramRestarted);
  EXPECT_EQ(first.status.failures[0].worker, "digits-worker-1");
  EXPECT_EQ(first.status.failures[0].node, "node-1");
  EXPECT_EQ(first.status.failures[0].last_lines, std::vector<std::string>{text});
  ASSERT_TRUE(first.status.last_recovery.has_value());
  EXPECT_TRUE(first.status.last_recovery->from_start);
  EXPECT_TRUE(second.events.empty());
  EXPECT_EQ(second.status.failures.size(), 1u);
}

// If the launcher of a program is lost or replaced, the program ends.
TEST(ResizingPolicy, AProgramThatLosesItsLauncherRestartsAndIsReportedOnce) {
  struct Row {
    const char* name;
    std::function<Observed(const api::TrainingJob&)> after;
    bool has_node;
  };
  const std::vector<Row> table = {
      {"crashed",
       [](const api::TrainingJob& job) {
         return SceneBuilder(job)
             .With(PodBuilder::Launcher(1).Ended(139, "Error"))
             .Workers(3)
             .Build();
       },
       true},
      {"deleted",
       [](const api::TrainingJob& job) {
         return SceneBuilder(job).With(PodBuilder::Launcher(1).Deleting()).Workers(3).Build();
       },
       true},
      {"force-deleted",
       [](const api::TrainingJob& job) { return SceneBuilder(job).Workers(3).Build(); }, false},
  };
  for (const Row& row : table) {
    for (const bool ours : {false, true}) {
      Scene scene = Stable();
      if (!ours) scene.job.spec.command = {"mpi-solver"};
      scene.job.status = scene.Make().status;
      ASSERT_TRUE(api::IsTrue(scene.job.status.conditions, api::kRunning)) << row.name;
      scene.wall_now += std::chrono::seconds(7320);
      scene.observed = row.after(scene.job);

      const Plan plan = scene.Make();
      scene.job.status = plan.status;
      const Plan again = scene.Make();

      const auto restarts = [](const Plan& one) {
        return std::count_if(one.events.begin(), one.events.end(), [](const PlannedEvent& event) {
          return event.reason == api::kReasonProgramRestarted;
        });
      };
      EXPECT_EQ(restarts(plan), ours ? 0 : 1) << row.name;
      EXPECT_EQ(restarts(again), 0) << row.name;
      const std::vector<std::string> reasons = EventReasons(plan);
      EXPECT_NE(std::find(reasons.begin(), reasons.end(), api::kEventLauncherReplaced),
                reasons.end())
          << row.name << ": the launcher's own loss is told of every program";
      if (ours) continue;
      const auto failure =
          std::find_if(plan.status.failures.begin(), plan.status.failures.end(),
                       [](const auto& one) { return one.reason == api::kReasonProgramRestarted; });
      ASSERT_NE(failure, plan.status.failures.end()) << row.name;
      EXPECT_EQ(failure->last_lines[0],
                "the program restarts from its beginning after running for 2 h 2 min: "
                "its launcher digits-launcher-1" +
                    std::string(row.has_node ? " on node node-1" : "") + " was lost")
          << row.name;
    }
  }
}

TEST(ResizingPolicy, ALossDuringAnotherChangeIsReported) {
  const auto ended = [](Scene& scene) {
    scene.observed = SceneBuilder(scene.job)
                         .Launcher()
                         .Workers(2)
                         .With(PodBuilder::Worker(2).Ended(137, "Error"))
                         .Build();
  };
  const auto fenced = [](Scene& scene) { scene.launcher->status->workers[2].fenced = true; };
  const std::function<void(Scene&)> losses[] = {ended, fenced};
  for (const auto& lose : losses) {
    Scene scene = Stable();
    scene.job.spec.worker.replicas = 4;
    scene.job.status = scene.Make().status;
    ASSERT_EQ(Resizing(scene.job.status), "True ScalingUp");
    lose(scene);

    EXPECT_EQ(Resizing(scene.Make().status), "True WorkerLost");
  }
}

}  // namespace
}  // namespace ringmaster::job
