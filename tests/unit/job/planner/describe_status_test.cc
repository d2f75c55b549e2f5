#include "operator/job/planner/describe_status.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "common/control/reasons.h"
#include "operator/api/conditions.h"
#include "operator/job/policy/progress_policy.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::SceneBuilder;

// The input of a live job's status: the job, its Pods and the launcher's answer.
struct Situation {
  api::TrainingJob job = JobBuilder().Term(1).Build();
  Observed observed;
  std::optional<LauncherView> launcher;
  PodsOutlook outlook{.complete = true};
  JobMemory memory;
  Clock::Time now{std::chrono::hours(1)};

  api::TrainingJobStatus Describe() const {
    api::TrainingJobStatus status = job.status;
    DescribeLive({.job = job,
                  .observed = observed,
                  .launcher = launcher,
                  .memory = memory,
                  .now = now,
                  .wall_now = std::chrono::system_clock::from_time_t(1'795'168'800)},
                 outlook, status);
    return status;
  }
};

Situation Complete() {
  Situation situation;
  situation.observed = SceneBuilder(situation.job).Launcher().Workers(3).Build();
  situation.launcher =
      LauncherView{.pod_uid = "uid-launcher-1", .status = control::LauncherStatus{}};
  for (int i = 0; i < 3; ++i) {
    situation.launcher->status->workers.push_back({.pod_uid = "uid-worker-" + std::to_string(i),
                                                   .ready = true,
                                                   .member = true,
                                                   .faults = {}});
  }
  return situation;
}

Situation CompleteAndTraining() {
  Situation situation = Complete();
  situation.launcher->status->phase = control::LauncherPhase::kRunning;
  situation.launcher->status->world_size = 3;
  return situation;
}

std::string ReasonOf(const api::TrainingJobStatus& status, const char* type) {
  const api::Condition* condition = api::FindCondition(status.conditions, type);
  return condition == nullptr ? "" : condition->reason;
}

TEST(DescribeStatus, WorkersReadyNamesWhatPreventsIt) {
  struct Row {
    const char* reason;
    std::function<void(Situation&)> change;
  };
  const Row table[] = {
      {api::kReasonWorkersReady, [](Situation&) {}},
      {api::kReasonQuotaExceeded,
       [](Situation& s) { s.memory.refusal = Refusal{.cause = RefusalCause::kQuotaExceeded}; }},
      {api::kReasonUnschedulable,
       [](Situation& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Unschedulable("no GPUs"))
                          .Build();
       }},
      {"ImagePullBackOff",
       [](Situation& s) {
         s.observed = SceneBuilder(s.job)
                          .Launcher()
                          .Workers(2)
                          .With(PodBuilder::Worker(2).Waiting("ImagePullBackOff", "not found"))
                          .Build();
       }},
      {"ImagePullBackOff",  // reason of the launcher's Pod
       [](Situation& s) {
         s.observed = SceneBuilder(s.job)
                          .With(PodBuilder::Launcher(1).Waiting("ImagePullBackOff", "not found"))
                          .Workers(3)
                          .Build();
       }},
      {api::kReasonWorkersReady,  // the launcher's Pod is being deleted
       [](Situation& s) {
         s.observed =
             SceneBuilder(s.job)
                 .With(PodBuilder::Launcher(1).Waiting("ImagePullBackOff", "not found").Deleting())
                 .Workers(3)
                 .Build();
       }},
      {api::kReasonBackOff,
       [](Situation& s) { s.outlook.back_off = std::chrono::milliseconds(1); }},
      {api::kReasonCreating, [](Situation& s) { s.outlook.complete = false; }},
      {api::kReasonWaitingForPods,
       [](Situation& s) { s.launcher->status->workers[1].ready = false; }},
      {control::kReasonPreflightFailed,
       [](Situation& s) {
         s.launcher->status->workers[0].faults = {{"sshd", "no sshd in the image"}};
       }},
      {api::kReasonWaitingForLauncher, [](Situation& s) { s.launcher.reset(); }},
      {api::kReasonWaitingForLauncher,  // the condition had another reason before
       [](Situation& s) {
         s.launcher.reset();
         s.job.status.conditions = {{.type = api::kWorkersReady, .reason = api::kReasonCreating}};
       }},
      {api::kReasonWaitingForLauncher,
       [](Situation& s) {
         s.launcher.reset();
         s.job.status.conditions = {
             {.type = api::kWorkersReady, .reason = api::kReasonWaitingForPods}};
       }},
      {api::kReasonWaitingForPods,  // the launcher's Pod
       [](Situation& s) {
         s.launcher.reset();
         s.observed = SceneBuilder(s.job)
                          .With(PodBuilder::Launcher(1).Phase(PodPhase::kPending))
                          .Workers(3)
                          .Build();
       }},
      {api::kReasonWorkersReady,
       [](Situation& s) { s.launcher->silent_since = s.now - std::chrono::seconds(5); }},
      {api::kReasonLauncherUnreachable,
       [](Situation& s) { s.launcher->silent_since = s.now - std::chrono::seconds(6); }},
      {api::kReasonNodesUnreachable,
       [](Situation& s) {
         s.outlook.unreachable = "2 of 3 nodes are not ready";
         s.launcher->status->workers[1].ready = false;
       }},
      {api::kReasonWorkersReady,  // the reason is the same if nodes are not ready
       [](Situation& s) { s.outlook.unreachable = "2 of 3 nodes are not ready"; }},
  };
  for (const Row& row : table) {
    Situation situation = Complete();
    row.change(situation);

    const auto status = situation.Describe();

    EXPECT_EQ(ReasonOf(status, api::kWorkersReady), row.reason);
    EXPECT_EQ(api::IsTrue(status.conditions, api::kWorkersReady),
              std::string(row.reason) == api::kReasonWorkersReady);
  }
}

TEST(DescribeStatus, ALauncherWithNewerOrdersIsNotReportedAsUnreachable) {
  Situation situation = Complete();
  situation.launcher->silent_since = situation.now - std::chrono::seconds(6);
  situation.launcher->has_newer_order = true;

  const auto status = situation.Describe();

  EXPECT_EQ(api::FindCondition(status.conditions, api::kWorkersReady)->message,
            "digits-launcher-1 refuses the operator's orders, because it has newer orders of "
            "another operator; if no other operator manages the job, restart the operator");
}

TEST(DescribeStatus, MessagesNameTheWorker) {
  Situation situation = Complete();
  situation.launcher->status->workers[1].faults = {{"gpu", "no GPU found"}};

  const auto status = situation.Describe();

  EXPECT_EQ(api::FindCondition(status.conditions, api::kWorkersReady)->message,
            "digits-worker-1 on node node-1 failed its gpu check: no GPU found");
}

TEST(DescribeStatus, RunningFollowsTheLaunchersPhase) {
  Situation situation = Complete();
  situation.launcher->status->phase = control::LauncherPhase::kRunning;
  situation.launcher->status->world_size = 6;
  situation.launcher->status->epoch = {.term = 1, .number = 4};

  const auto running = situation.Describe();
  situation.launcher->status->phase = control::LauncherPhase::kStopping;
  const auto stopping = situation.Describe();

  EXPECT_TRUE(api::IsTrue(running.conditions, api::kRunning));
  EXPECT_EQ(running.state, api::kStateRunning);
  EXPECT_EQ(running.world_size, 6);
  EXPECT_EQ(running.epoch, 4);
  EXPECT_EQ(running.workers.members, 3);
  EXPECT_FALSE(api::IsTrue(stopping.conditions, api::kRunning));
  EXPECT_EQ(stopping.state, api::kStateStarting);
}

TEST(DescribeStatus, AJobWithProgressHasTrainedAlthoughItWasNotSeenRunning) {
  for (const bool trained : {false, true}) {
    Situation situation = Complete();
    situation.launcher->status->phase = control::LauncherPhase::kPaused;
    if (trained) situation.launcher->status->progress = control::Progress{.step = 1};

    EXPECT_EQ(situation.Describe().has_trained, trained);
  }
}

TEST(DescribeStatus, ALauncherWithoutAWorldDoesNotUndoItsNumber) {
  using Phase = control::LauncherPhase;
  for (const Phase phase : {Phase::kWaitingForOrder, Phase::kWaitingForAgents, Phase::kAdopting}) {
    Situation situation = Complete();
    situation.job.status.epoch = 4;
    situation.launcher->status->term = 2;
    situation.launcher->status->phase = phase;

    EXPECT_EQ(situation.Describe().epoch, 4) << control::ToString(phase);
  }
}

TEST(DescribeStatus, AnswersOfAnEarlierLauncherCountForNothing) {
  Situation situation = Complete();
  situation.launcher->pod_uid = "uid-of-an-earlier-one";

  EXPECT_EQ(situation.Describe().workers.ready, 0);
}

TEST(DescribeStatus, ARestartedOperatorKeepsTheConditionUntilItHasPolledTheLauncher) {
  Situation situation = Complete();
  situation.launcher->status->phase = control::LauncherPhase::kRunning;
  situation.launcher->status->world_size = 3;
  situation.job.status = situation.Describe();
  situation.launcher.reset();

  EXPECT_EQ(situation.Describe(), situation.job.status);
}

TEST(DescribeStatus, SaysWhichElasticityModeHolds) {
  Situation situation = Complete();
  situation.job.spec.elasticity_mode.reset();
  situation.job.spec.command = {"python", "train.py"};
  EXPECT_EQ(situation.Describe().elasticity_mode, api::ElasticityMode::kRestart);

  situation.job.spec.elasticity_mode = api::ElasticityMode::kInPlace;
  EXPECT_EQ(situation.Describe().elasticity_mode, api::ElasticityMode::kInPlace);

  situation.job.spec.elasticity_mode.reset();
  situation.job.spec.command = {"/usr/bin/ringmaster-train"};
  EXPECT_EQ(situation.Describe().elasticity_mode, api::ElasticityMode::kInPlace);
}

TEST(DescribeStatus, ProgressHasPercentAndTimeOfCompletion) {
  Situation situation = CompleteAndTraining();
  situation.launcher->steps_per_second = 10;
  situation.launcher->status->progress = control::Progress{.step = 400,
                                                           .total_steps = 1000,
                                                           .samples_per_second = 1234.6,
                                                           .loss = 0.03125,
                                                           .accuracy = 0.975};

  const auto progress = situation.Describe().progress;

  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->percent, 40);
  EXPECT_EQ(progress->samples_per_second, "1235");
  EXPECT_EQ(progress->loss, "0.03125");
  EXPECT_EQ(progress->accuracy, "0.975");
  EXPECT_EQ(progress->estimated_completion_time, "2026-11-20T10:01:00Z");
}

TEST(DescribeStatus, ProgressOfWhichNotEverythingIsKnownSaysWhatIs) {
  struct Row {
    int64_t step;
    int64_t total;
    double rate;
    double accuracy;
    std::optional<int> percent;
    const char* complete_at;
    const char* said_accuracy;
  };
  const Row table[] = {
      {7, 0, 10, -1, std::nullopt, "", ""},
      {0, 2, 0, 0, 0, "", "0"},
      {0, 20, 2, 1, 0, "2026-11-20T10:00:10Z", "1"},
      {0, 20, 0.5, 1, 0, "2026-11-20T10:00:40Z", "1"},
      {1, 1, 2, 1, 100, "", "1"},
      {3, 2, 2, 1, 100, "", "1"},
      {0, 1'000'000'000, 1, 1, 0, "", "1"},
  };
  for (const Row& row : table) {
    Situation situation = CompleteAndTraining();
    situation.launcher->steps_per_second = row.rate;
    situation.launcher->status->progress =
        control::Progress{.step = row.step, .total_steps = row.total, .accuracy = row.accuracy};

    const api::JobProgress progress = *situation.Describe().progress;

    EXPECT_EQ(progress.percent, row.percent) << row.step << " of " << row.total;
    EXPECT_EQ(progress.estimated_completion_time, row.complete_at)
        << row.step << " of " << row.total;
    EXPECT_EQ(progress.accuracy, row.said_accuracy) << row.accuracy;
  }
}

TEST(DescribeStatus, ARateIsADecimalNumber) {
  const std::pair<double, std::string> rows[] = {
      {0.4, "0.4"},       {0.0628, "0.063"}, {1.26, "1.3"}, {12.34, "12.3"},
      {7, "7"},           {100.4, "100"},    {0, "0"},      {1234567, "1234567"},
      {std::nan(""), ""}, {-1, ""},          {1e15, ""}};
  for (const auto& [rate, text] : rows) {
    Situation situation = CompleteAndTraining();
    situation.launcher->status->progress = control::Progress{.step = 1, .samples_per_second = rate};
    EXPECT_EQ(situation.Describe().progress->samples_per_second, text) << rate;
  }
}

TEST(DescribeStatus, AJobThatDoesNotTrainHasNoRateAndNoTimeOfCompletion) {
  struct Row {
    std::function<void(Situation&)> change;
    const char* state;
    bool has_rate;
  };
  const auto pause = [](const char* reason) {
    return [reason](Situation& s) {
      s.launcher->status->phase = control::LauncherPhase::kPaused;
      s.launcher->status->pause_reason = reason;
    };
  };
  const Row table[] = {
      {[](Situation&) {}, api::kStateRunning, true},
      {[](Situation& s) {  // a world without the lost rank is being formed
         s.launcher->status->phase = control::LauncherPhase::kForming;
         s.launcher->status->epoch = {.term = 1, .number = 2};
       },
       api::kStateRunning, true},
      {pause(control::kPauseNoQuorum), api::kStatePaused, false},
      {pause(control::kPauseBelowMinReplicas), api::kStatePaused, false},
      {[](Situation& s) { s.launcher->status->phase = control::LauncherPhase::kStopping; },
       api::kStateStarting, false},
      {[](Situation& s) { s.outlook.launcher_lost = true; }, api::kStateStarting, false},
  };
  for (const Row& row : table) {
    Situation situation = CompleteAndTraining();
    situation.launcher->steps_per_second = 10;
    situation.launcher->status->progress =
        control::Progress{.step = 400, .total_steps = 1000, .samples_per_second = 900, .loss = 0.5};
    situation.job.status = situation.Describe();
    ASSERT_EQ(situation.job.status.progress->samples_per_second, "900");
    row.change(situation);

    const api::TrainingJobStatus status = situation.Describe();

    EXPECT_EQ(status.state, row.state);
    EXPECT_EQ(!status.progress->samples_per_second.empty(), row.has_rate) << row.state;
    EXPECT_EQ(!status.progress->estimated_completion_time.empty(), row.has_rate) << row.state;
    EXPECT_EQ(status.progress->step, 400) << row.state;
    EXPECT_EQ(status.progress->percent, 40) << row.state;
    EXPECT_EQ(status.progress->loss, "0.5") << row.state;
  }
}

control::Straggler SlowRank(int worker, double step_millis, int64_t for_seconds) {
  return {.pod_uid = "uid-worker-" + std::to_string(worker),
          .pod = "digits-worker-" + std::to_string(worker),
          .node = "node1",
          .rank = worker,
          .step_millis = step_millis,
          .median_millis = 40.4,
          .for_seconds = for_seconds};
}

TEST(DescribeStatus, StragglersAreListedWhileTheyAreSlow) {
  Situation situation = Complete();
  situation.launcher->status->stragglers = {SlowRank(1, 90.6, 12)};

  const api::TrainingJobStatus status = situation.Describe();

  ASSERT_EQ(status.stragglers.size(), 1U);
  EXPECT_EQ(status.stragglers[0], (api::Straggler{.worker = "digits-worker-1",
                                                  .pod_uid = "uid-worker-1",
                                                  .node = "node1",
                                                  .rank = 1,
                                                  .step_millis = 91,
                                                  .median_millis = 40,
                                                  .since = "2026-11-20T09:59:48Z"}));

  situation.job.status = status;
  situation.launcher->status->stragglers = {SlowRank(1, 95, 14), SlowRank(2, 80, 10)};
  const api::TrainingJobStatus later = situation.Describe();
  ASSERT_EQ(later.stragglers.size(), 2U);
  EXPECT_EQ(later.stragglers[0].since, status.stragglers[0].since) << "it is the same slowness";
  EXPECT_EQ(later.stragglers[0].step_millis, 95);
  EXPECT_FALSE(SameStragglers(status, later));

  situation.job.status = later;
  situation.launcher->status->stragglers.clear();
  EXPECT_TRUE(situation.Describe().stragglers.empty());
}

TEST(DescribeStatus, AStragglerThatIsSlowAtOnceIsSinceNow) {
  Situation situation = Complete();
  situation.launcher->status->stragglers = {SlowRank(1, 90, 0)};

  EXPECT_EQ(situation.Describe().stragglers.at(0).since, "2026-11-20T10:00:00Z");
}

TEST(DescribeStatus, ALauncherMaySayAnythingOfStragglers) {
  Situation situation = Complete();
  control::Straggler strange = SlowRank(1, std::nan(""), -5);
  strange.median_millis = 1e300;
  situation.launcher->status->stragglers.assign(100, strange);

  const api::TrainingJobStatus status = situation.Describe();

  ASSERT_EQ(status.stragglers.size(), control::kMaxStragglers);
  EXPECT_EQ(status.stragglers[0].step_millis, 0);
}

TEST(DescribeStatus, TheNewestCheckpointKeepsItsTimeWhileItsAgeGrows) {
  Situation situation = Complete();
  situation.launcher->status->checkpoint =
      control::CheckpointReport{.epoch = {1, 1}, .step = 500, .age_millis = 2000};
  situation.job.status = situation.Describe();
  ASSERT_TRUE(situation.job.status.checkpoint.has_value());
  EXPECT_EQ(situation.job.status.checkpoint->step, 500);
  EXPECT_EQ(situation.job.status.checkpoint->time, "2026-11-20T09:59:58Z");

  situation.launcher->status->checkpoint->age_millis = 9000;

  EXPECT_EQ(situation.Describe(), situation.job.status);
}

TEST(DescribeStatus, ProtectedSpeaksOnlyOnceSomethingCouldNotBeKept) {
  Situation situation = Complete();
  EXPECT_EQ(ReasonOf(situation.Describe(), api::kProtected), "");

  situation.launcher->status->unprotected = {{"snapshot", "digits-worker-0", "no memory"}};
  EXPECT_EQ(ReasonOf(situation.Describe(), api::kProtected), api::kReasonSnapshotFailing);

  situation.launcher->status->unprotected = {{"copy", "digits-worker-0", "no memory"}};
  EXPECT_EQ(ReasonOf(situation.Describe(), api::kProtected), api::kReasonCopyFailing);

  situation.launcher->status->unprotected.push_back(
      {"checkpoint", "digits-worker-1", "no space left on device"});
  situation.job.status = situation.Describe();
  const api::Condition* condition =
      api::FindCondition(situation.job.status.conditions, api::kProtected);
  ASSERT_NE(condition, nullptr);
  EXPECT_EQ(condition->status, api::ConditionStatus::kFalse);
  EXPECT_EQ(condition->reason, api::kReasonCheckpointFailing);
  EXPECT_NE(condition->message.find("digits-worker-1: no space left"), std::string::npos);

  situation.launcher->status->unprotected.push_back(
      {"restore", "digits-worker-2", "while reading DONE: Input/output error"});
  EXPECT_EQ(ReasonOf(situation.Describe(), api::kProtected), api::kReasonCheckpointUnreadable);

  situation.launcher->status->unprotected.clear();
  EXPECT_TRUE(api::IsTrue(situation.Describe().conditions, api::kProtected));
}

TEST(DescribeStatus, RestoredSpeaksOnlyOfWhatTrainingBeganWith) {
  Situation situation = Complete();
  EXPECT_EQ(ReasonOf(situation.Describe(), api::kRestored), "");

  situation.launcher->status->beginning = {.step = 0, .message = "beside another one"};
  EXPECT_EQ(ReasonOf(situation.Describe(), api::kRestored), api::kReasonStartedAfresh);

  situation.launcher->status->beginning = {.step = 1, .message = "it started from step 1"};
  EXPECT_EQ(ReasonOf(situation.Describe(), api::kRestored), api::kReasonFromCheckpoint);

  situation.launcher->status->beginning = {.step = 500, .message = "it started from step 500"};
  const api::TrainingJobStatus restored = situation.Describe();
  EXPECT_TRUE(api::IsTrue(restored.conditions, api::kRestored));
  EXPECT_EQ(api::FindCondition(restored.conditions, api::kRestored)->message,
            "it started from step 500");
}

// Tests all ways in which a job can end, with all conditions that a live job can have.
TEST(DescribeStatus, AnEndedJobHasNoConditionThatStillWaits) {
  using Status = api::ConditionStatus;
  const std::vector<api::Condition> live = {
      {.type = api::kCreated,
       .status = Status::kFalse,
       .reason = api::kReasonCreating,
       .message = "Pods are being created"},
      {.type = api::kCreated,
       .status = Status::kTrue,
       .reason = api::kReasonCreated,
       .message = "the launcher's Pod and 3 worker Pods exist"},
      {.type = api::kWorkersReady,
       .status = Status::kFalse,
       .reason = api::kReasonWaitingForPods,
       .message = "2 of 3 workers are ready; digits-worker-2 is loading"},
      {.type = api::kWorkersReady,
       .status = Status::kTrue,
       .reason = api::kReasonWorkersReady,
       .message = "3 of 3 workers are ready"},
      {.type = api::kRunning,
       .status = Status::kTrue,
       .reason = api::kReasonTraining,
       .message = "3 ranks on 3 workers train"},
      {.type = api::kRestored,
       .status = Status::kTrue,
       .reason = "Restored",
       .message = "it started from step 500"},
      {.type = api::kResizing,
       .status = Status::kTrue,
       .reason = api::kReasonWorkerLost,
       .message = "2 of 3 workers are in the world; waiting for 1 of 3 workers"},
      {.type = api::kResizing,
       .status = Status::kFalse,
       .reason = api::kReasonStable,
       .message = "3 of 3 workers are in the world"},
      {.type = api::kSuspended,
       .status = Status::kFalse,
       .reason = api::kReasonSuspending,
       .message = "the ranks are being stopped; then the Pods are deleted"},
      {.type = api::kProtected,
       .status = Status::kFalse,
       .reason = api::kReasonCheckpointFailing,
       .message = "training continues, but new checkpoints fail"},
      {.type = api::kNetworkIsolated,
       .status = Status::kTrue,
       .reason = api::kReasonPoliciesCreated,
       .message = "only the job's own Pods may connect"},
  };
  for (const bool succeeded : {true, false}) {
    for (const api::Condition& before : live) {
      api::TrainingJob job = JobBuilder().Term(1).Build();
      job.status.conditions = {before};
      const Observed observed = SceneBuilder(job).Build();
      const std::optional<LauncherView> launcher;
      const JobMemory memory;
      api::TrainingJobStatus status = job.status;

      DescribeOutcome({.job = job,
                       .observed = observed,
                       .launcher = launcher,
                       .memory = memory,
                       .now = {},
                       .wall_now = {}},
                      {.succeeded = succeeded, .reason = "Why", .message = "that was it"}, status);

      const std::string row = before.type + " " + before.reason;
      EXPECT_EQ(status.reason, "Why") << row;
      for (const api::Condition& after : status.conditions) {
        const bool of_the_past = after.type == api::kCreated || after.type == api::kRestored ||
                                 after.type == api::kNetworkIsolated;
        const bool verdict = after.type == (succeeded ? api::kSucceeded : api::kFailed) ||
                             (!succeeded && after.type == api::kStalled);
        EXPECT_TRUE(after.status == Status::kFalse || of_the_past || verdict)
            << row << ": " << after.type << " is still true";
        for (const char* waiting : {"waits", "is loading", "are being", "train", "exist "}) {
          const bool quoted = after.type == api::kProtected;
          EXPECT_TRUE(quoted || after.message.find(waiting) == std::string::npos)
              << row << ": " << after.type << " says " << after.message;
        }
        for (const char* waiting : {api::kReasonWaitingForPods, api::kReasonCreating,
                                    api::kReasonWorkerLost, api::kReasonSuspending}) {
          EXPECT_NE(after.reason, waiting) << row;
        }
      }
    }
  }
}

TEST(DescribeStatus, AnEndedJobHasNoRateAndNoTimeOfCompletion) {
  Situation situation = CompleteAndTraining();
  situation.launcher->steps_per_second = 10;
  situation.launcher->status->progress =
      control::Progress{.step = 400, .total_steps = 1000, .samples_per_second = 900};
  const api::TrainingJobStatus live = situation.Describe();
  ASSERT_NE(live.progress->estimated_completion_time, "");
  control::Verdict verdict;
  verdict.progress = control::Progress{.step = 500, .total_steps = 1000, .samples_per_second = 900};
  for (const bool has_verdict : {false, true}) {
    Outcome outcome{.succeeded = false, .reason = "Why", .message = "that was it"};
    if (has_verdict) outcome.verdict = verdict;
    api::TrainingJobStatus status = live;

    DescribeOutcome({.job = situation.job,
                     .observed = situation.observed,
                     .launcher = situation.launcher,
                     .memory = situation.memory,
                     .now = situation.now,
                     .wall_now = {}},
                    outcome, status);

    EXPECT_EQ(status.progress->samples_per_second, "") << has_verdict;
    EXPECT_EQ(status.progress->estimated_completion_time, "") << has_verdict;
    EXPECT_EQ(status.progress->step, has_verdict ? 500 : 400);
  }
}

TEST(DescribeStatus, TheReasonIsThatOfTheMostInformativeCondition) {
  struct Row {
    const char* name;
    std::function<void(Situation&)> change;
    const char* state;
    const char* reason;
  };
  const auto answer = [](Situation& one) -> control::LauncherStatus& {
    return *one.launcher->status;
  };
  const std::vector<Row> table = {
      {"trains",
       [&](Situation& one) {
         answer(one).phase = control::LauncherPhase::kRunning;
         answer(one).world_size = 3;
         answer(one).epoch = {1, 1};
       },
       api::kStateRunning, api::kReasonTraining},
      {"trains with fewer",
       [&](Situation& one) {
         answer(one).phase = control::LauncherPhase::kRunning;
         answer(one).world_size = 2;
         answer(one).epoch = {1, 2};
         answer(one).workers[2].member = false;
         one.outlook.worker_lost = true;
       },
       api::kStateRunning, api::kReasonWorkerLost},
      {"an image is missing",
       [&](Situation& one) {
         one.observed = SceneBuilder(one.job)
                            .Launcher()
                            .Workers(2)
                            .With(PodBuilder::Worker(2).Waiting("ErrImagePull", "not found"))
                            .Build();
       },
       api::kStateStarting, "ErrImagePull"},
      {"loads", [&](Situation&) {}, api::kStateStarting, api::kReasonStarting},
      {"pauses",
       [&](Situation& one) {
         answer(one).phase = control::LauncherPhase::kPaused;
         answer(one).pause_reason = control::kPauseBelowMinReplicas;
         answer(one).epoch = {1, 2};
         answer(one).workers[2].ready = false;
       },
       api::kStatePaused, control::kPauseBelowMinReplicas},
  };
  for (const Row& row : table) {
    Situation situation = Complete();
    row.change(situation);

    const api::TrainingJobStatus status = situation.Describe();

    EXPECT_EQ(status.state, row.state) << row.name;
    EXPECT_EQ(status.reason, row.reason) << row.name;
  }
}

// The launcher knows only that a worker has not connected. All conditions give the Pod's reason,
// because a user may read only one of them.
TEST(DescribeStatus, AMissingPodIsExplainedInOneWayEverywhere) {
  constexpr char kWhy[] =
      "digits-worker-2 cannot be scheduled: 0/3 nodes are available: 3 node(s) were "
      "unschedulable; uncordon a node (kubectl uncordon NODE), or add one";
  struct Row {
    const char* name;
    control::LauncherPhase phase;
    const char* pause;
    bool unschedulable;
    std::string ready;
    std::string running;
    std::string resizing;
  };
  const std::string paused =
      "training is paused and its state is kept: 2 of at least 3 workers "
      "are ready; " +
      std::string(kWhy);
  const Row table[] = {
      {"starts", control::LauncherPhase::kWaitingForAgents, "", true, kWhy, kWhy, ""},
      {"paused", control::LauncherPhase::kPaused, control::kPauseBelowMinReplicas, true, kWhy,
       paused, paused},
      {"starts, and the Pod runs", control::LauncherPhase::kWaitingForAgents, "", false,
       "2 of 3 workers are ready; waits", "waits", ""},
      {"paused, and the Pod runs", control::LauncherPhase::kPaused, control::kPauseBelowMinReplicas,
       false, "2 of 3 workers are ready; waits", "waits", "waits"},
      {"no quorum", control::LauncherPhase::kPaused, control::kPauseNoQuorum, true, kWhy, "waits",
       "waits"},
  };
  for (const Row& row : table) {
    Situation situation = Complete();
    situation.job.spec.worker.min_replicas = 3;
    control::LauncherStatus& answer = *situation.launcher->status;
    answer.phase = row.phase;
    answer.pause_reason = row.pause;
    answer.message = "waits";
    answer.epoch =
        row.phase == control::LauncherPhase::kPaused ? control::Epoch{1, 2} : control::Epoch{};
    answer.workers[2].ready = false;
    if (row.unschedulable) {
      situation.observed = SceneBuilder(situation.job)
                               .Launcher()
                               .Workers(2)
                               .With(PodBuilder::Worker(2).Unschedulable(
                                   "0/3 nodes are available: 3 node(s) were unschedulable."))
                               .Build();
    }

    const api::TrainingJobStatus status = situation.Describe();

    const auto message = [&](const char* type) {
      const api::Condition* condition = api::FindCondition(status.conditions, type);
      return condition == nullptr ? "" : condition->message;
    };
    EXPECT_EQ(message(api::kWorkersReady), row.ready) << row.name;
    EXPECT_EQ(message(api::kRunning), row.running) << row.name;
    EXPECT_EQ(message(api::kResizing), row.resizing) << row.name;
  }
}

TEST(DescribeStatus, OneRankTrains) {
  Situation situation = Complete();
  control::LauncherStatus& answer = *situation.launcher->status;
  answer.phase = control::LauncherPhase::kRunning;
  answer.world_size = 1;

  const api::TrainingJobStatus status = situation.Describe();

  EXPECT_EQ(api::FindCondition(status.conditions, api::kRunning)->message,
            "1 rank on 3 workers trains");
}

TEST(DescribeStatus, AfterTrainingTheConditionRunningNamesTheWorkersWhoseProcessesRun) {
  Situation situation = Complete();
  control::LauncherStatus& answer = *situation.launcher->status;
  answer.phase = control::LauncherPhase::kRunning;
  answer.world_size = 3;
  answer.training_ended = true;
  answer.message = "training has ended; waiting for the processes on digits-worker-0 to exit";

  const api::TrainingJobStatus status = situation.Describe();

  EXPECT_EQ(status.state, api::kStateRunning);
  EXPECT_EQ(api::FindCondition(status.conditions, api::kRunning)->message, answer.message);
}

TEST(DescribeStatus, RunningReportsWhatTheRanksDo) {
  using Phase = control::LauncherPhase;
  struct Row {
    Phase phase;
    int64_t epoch;  // number of the newest world
    const char* pause;
    const char* message;  // the launcher's message
    const char* running;
  };
  const Row table[] = {
      {Phase::kWaitingForAgents, 0, "", "", "False Starting: no ranks run yet"},
      {Phase::kWaitingForAgents, 0, "", "waits", "False Starting: waits"},
      {Phase::kRunning, 1, "", "x", "True Training: 6 ranks on 3 workers train"},
      {Phase::kForming, 0, "", "waits", "False Starting: waits"},
      {Phase::kForming, 1, "", "",
       "True ReformingWorld: ranks continue in a world that is being formed"},
      {Phase::kAdopting, 1, "", "waits", "True ReformingWorld: waits"},
      {Phase::kPaused, 1, "NoQuorum", "", "False NoQuorum: ranks wait and keep their state"},
      {Phase::kPaused, 1, "", "waits", "False Starting: waits"},
      {Phase::kStopping, 1, "", "", "False ReformingWorld: the ranks are forming a new world"},
      {Phase::kFinished, 1, "", "x", "False Finished: the launcher has finished"},
  };
  for (const Row& row : table) {
    Situation situation = Complete();
    control::LauncherStatus& answer = *situation.launcher->status;
    answer.phase = row.phase;
    answer.epoch = {.term = 1, .number = row.epoch};
    answer.world_size = 6;
    answer.pause_reason = row.pause;
    answer.message = row.message;

    const api::TrainingJobStatus status = situation.Describe();

    const api::Condition* running = api::FindCondition(status.conditions, api::kRunning);
    ASSERT_NE(running, nullptr);
    EXPECT_EQ((running->status == api::ConditionStatus::kTrue ? "True " : "False ") +
                  running->reason + ": " + running->message,
              row.running);
  }
}

TEST(DescribeStatus, ALauncherThatNamesNoRanksHasNoneThatRun) {
  Situation situation = Complete();
  situation.launcher->status->phase = control::LauncherPhase::kRunning;
  situation.launcher->status->world_size = 0;

  EXPECT_FALSE(api::IsTrue(situation.Describe().conditions, api::kRunning));
}

TEST(DescribeStatus, WorkersThatGoOrAreNotWantedAreNotCountedAsReady) {
  const api::TrainingJob job = JobBuilder().Term(1).Replicas(2).Build();
  Situation situation = Complete();
  situation.job = job;
  EXPECT_EQ(situation.Describe().workers,
            (api::WorkerCounts{.desired = 2, .replicas = 3, .ready = 2, .members = 3}));

  situation.observed = SceneBuilder(job)
                           .Launcher()
                           .Workers(1)
                           .With(PodBuilder::Worker(1).Leaving("ScalingDown"))
                           .With(PodBuilder::Worker(2).Leaving("ScalingDown"))
                           .Build();
  EXPECT_EQ(situation.Describe().workers,
            (api::WorkerCounts{.desired = 2, .replicas = 3, .ready = 1, .members = 3}));
  situation.launcher->status->phase = control::LauncherPhase::kPaused;
  EXPECT_EQ(situation.Describe().workers,
            (api::WorkerCounts{.desired = 2, .replicas = 3, .ready = 1, .members = 0}));
  situation.launcher->status->phase = control::LauncherPhase::kRunning;

  situation.job = JobBuilder().Term(1).Replicas(1).Build();
  EXPECT_EQ(api::FindCondition(situation.Describe().conditions, api::kWorkersReady)->message,
            "1 of 1 worker is ready");
}

// A program that does not report steps counts as making progress when it runs.
TEST(DescribeStatus, CrashesKeepAJobFromBeingReadyUntilItGoesOn) {
  using Phase = control::LauncherPhase;
  struct Row {
    const char* command;
    Phase phase;
    const char* reason;
  };
  const Row table[] = {
      {"ringmaster-train", Phase::kRunning, control::kReasonCrashLoop},
      {"my-program", Phase::kStarting, control::kReasonCrashLoop},
      {"my-program", Phase::kRunning, api::kReasonWorkersReady},
  };
  for (const Row& row : table) {
    Situation situation = Complete();
    situation.job.spec.command = {row.command};
    situation.job.status.crashes =
        api::Crashes{.count = 2, .of_launcher = 2, .step = 0, .time = ""};
    situation.job.status.failures = {{.signal = 9, .reason = "RankFailed"}};
    situation.launcher->status->phase = row.phase;

    EXPECT_EQ(ReasonOf(situation.Describe(), api::kWorkersReady), row.reason) << row.command;
  }
}

TEST(DescribeStatus, AJobIsCreatedOnceAllOfItExists) {
  for (const bool complete : {false, true}) {
    Situation situation = Complete();
    situation.outlook.complete = complete;

    const api::TrainingJobStatus status = situation.Describe();

    EXPECT_EQ(api::IsTrue(status.conditions, api::kCreated), complete);
    EXPECT_EQ(ReasonOf(status, api::kCreated),
              complete ? api::kReasonCreated : api::kReasonCreating);
  }
}

TEST(DescribeStatus, NetworkIsolatedIsSetOnceItIsKnown) {
  struct Row {
    const char* name;
    std::function<void(PlanInput&, api::TrainingJob&, JobMemory&)> change;
    std::string said;  // empty: no message
  };
  const Row table[] = {
      {"not known yet", [](auto&, auto&, auto&) {}, ""},
      {"isolated",
       [](auto&, auto&, auto& memory) { memory.isolation = IsolationCheck{.isolated = true}; },
       "True PoliciesCreated"},
      {"refused",
       [](auto&, auto&, auto& memory) {
         memory.isolation = IsolationCheck{.why_not = "forbidden"};
       },
       "False PoliciesMissing"},
      {"on the nodes' network",
       [](auto&, auto& job, auto& memory) {
         job.spec.host_network = true;
         memory.isolation = IsolationCheck{.isolated = true};
       },
       "False HostNetwork"},
      {"switched off",
       [](auto& input, auto&, auto& memory) {
         input.network_policies = false;
         memory.isolation = IsolationCheck{.isolated = true};
       },
       "False PoliciesOff"},
  };
  for (const Row& row : table) {
    api::TrainingJob job = JobBuilder().Term(1).Build();
    JobMemory memory;
    const Observed observed = SceneBuilder(job).Launcher().Workers(3).Build();
    const std::optional<LauncherView> launcher;
    PlanInput input{.job = job,
                    .observed = observed,
                    .launcher = launcher,
                    .memory = memory,
                    .now = {},
                    .wall_now = {}};
    row.change(input, job, memory);
    api::TrainingJobStatus status;

    DescribeLive(input, {}, status);

    const api::Condition* isolated = api::FindCondition(status.conditions, api::kNetworkIsolated);
    const bool is = api::IsTrue(status.conditions, api::kNetworkIsolated);
    EXPECT_EQ(isolated == nullptr ? "" : (is ? "True " : "False ") + isolated->reason, row.said)
        << row.name;
  }
}

}  // namespace
}  // namespace ringmaster::job
