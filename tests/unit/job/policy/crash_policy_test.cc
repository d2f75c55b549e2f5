// Tests which crashes are counted, and how a job that only crashes ends (crash_policy.h).

#include "operator/job/policy/crash_policy.h"

#include <algorithm>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "common/control/reasons.h"
#include "operator/api/conditions.h"
#include "operator/job/policy/replacement_policy.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::EventReasons;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kKilled = 137;
constexpr char kNewest[] = "2026-11-20T10:00:00Z";

api::TrainingJob OneWorker() { return RunningJob(1); }

// Returns a job whose only worker is `worker` and whose launcher has reported progress to `step`.
Scene EndedWorker(const api::TrainingJob& job, const PodBuilder& worker, int64_t step = 0) {
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().With(worker).Build()};
  control::LauncherStatus answer = RunningWorld(0);
  answer.phase = control::LauncherPhase::kWaitingForAgents;
  if (step > 0) answer.progress = control::Progress{.step = step};
  scene.Answers(answer);
  return scene;
}

PodPtr WithLimit(const PodBuilder& builder, const std::string& limit) {
  PodView pod = *builder.Build();
  pod.container.memory_limit = limit;
  return std::make_shared<const PodView>(pod);
}

int Count(const api::TrainingJobStatus& status) {
  return status.crashes ? status.crashes->count : 0;
}

std::string MessageOf(const api::TrainingJobStatus& status, const char* type) {
  const api::Condition* condition = api::FindCondition(status.conditions, type);
  return condition == nullptr ? "" : condition->reason + ": " + condition->message;
}

TEST(CrashPolicy, OnlyUnorderedKillsCount) {
  struct Row {
    const char* name;
    PodPtr pod;
    bool crashed;
  };
  const auto with = [](const PodBuilder& builder, auto change) {
    PodView pod = *builder.Build();
    change(pod);
    return std::make_shared<const PodView>(pod);
  };
  const PodBuilder worker = PodBuilder::Worker(0);
  const auto ended = [&](int code, const char* reason) {
    return PodBuilder(worker).Ended(code, reason);
  };
  const Row table[] = {
      {"out of memory", ended(kKilled, "OOMKilled").Build(), true},
      {"SIGKILL", ended(kKilled, "Error").Build(), true},
      {"SIGSEGV", ended(139, "Error").Build(), true},
      {"it runs", worker.Build(), false},
      {"its own exit", ended(1, "Error").Build(), false},
      {"asked to go", ended(143, "Error").Build(), false},
      {"no signal", ended(255, "Error").Build(), false},
      {"below the first signal", ended(128, "Error").Build(), false},
      {"the first signal", ended(129, "Error").Build(), true},
      {"the last signal", ended(159, "Error").Build(), true},
      {"above the last signal", ended(160, "Error").Build(), false},
      {"a runtime that names the signal",
       with(ended(1, "Error"), [](PodView& pod) { pod.container.signal = 1; }), true},
      {"the kubelet does not know", ended(kKilled, "ContainerStatusUnknown").Build(), false},
      {"never started", ended(128, "StartError").Build(), false},
      {"deleted", with(ended(kKilled, "Error"), [](PodView& pod) { pod.deleting = true; }), false},
      {"evicted", with(ended(kKilled, "Error"), [](PodView& pod) { pod.reason = "Evicted"; }),
       false},
      {"preempted",
       with(ended(kKilled, "OOMKilled"), [](PodView& pod) { pod.reason = "Preempting"; }), false},
      {"its node shuts down",
       with(ended(kKilled, "Error"), [](PodView& pod) { pod.reason = "Terminated"; }), false},
  };
  for (const Row& row : table) EXPECT_EQ(HasCrashed(*row.pod), row.crashed) << row.name;
}

TEST(CrashPolicy, AWorkerOutOfMemoryIsNamedWithItsLimitAndWhatToDo) {
  const api::TrainingJob job = OneWorker();
  Scene scene = EndedWorker(job, PodBuilder::Worker(0).Ended(kKilled, "OOMKilled"));
  scene.observed.failed = {WithLimit(PodBuilder::Worker(0).Ended(kKilled, "OOMKilled"), "64Mi")};

  const Plan plan = scene.Make();

  ASSERT_FALSE(plan.status.failures.empty());
  EXPECT_EQ(plan.status.failures[0].reason, "OOMKilled");
  EXPECT_THAT(plan.status.failures[0].last_lines.at(0),
              AllOf(HasSubstr("limit of the container is 64Mi"),
                    HasSubstr("raise spec.worker.resources.limits.memory (or the limit in "
                              "spec.worker.template)")));
  EXPECT_THAT(EventReasons(plan), Contains("OOMKilled"));
  EXPECT_THAT(MessageOf(plan.status, api::kWorkersReady),
              AllOf(HasSubstr("OOMKilled: digits-worker-0 on node node-1 ran out of memory"),
                    HasSubstr("64Mi"), HasSubstr("1 time without"), HasSubstr("fails at 5")));
  EXPECT_EQ(Count(plan.status), 1);
}

TEST(CrashPolicy, AFailureReportsWhatEndedAndHow) {
  const std::string pod = "digits-worker-1";
  const std::pair<api::Failure, std::string> table[] = {
      {{.worker = pod, .exit_code = 3, .reason = "Error"}, pod + " ended with exit code 3"},
      {{.worker = pod, .node = "n", .rank = 0, .signal = 1, .reason = "RankFailed"},
       "rank 0 on " + pod + " on node n was killed by signal 1"},
      {{.worker = pod, .start = "a", .exit_code = 1, .reason = "RankFailed"},
       "a rank on " + pod + " ended with exit code 1"},
      {{.worker = pod, .exit_code = 3, .reason = "Error", .last_lines = {"a", "b"}},
       pod + " ended with exit code 3; last output: b"},
      {{.worker = pod, .reason = control::kReasonOOMKilled, .last_lines = {"limit 64Mi", "b"}},
       pod + " ran out of memory: limit 64Mi"},
      {{.worker = pod, .reason = api::kReasonLauncherOOMKilled}, pod + " ran out of memory"},
      {{.worker = pod,
        .rank = 1,
        .exit_code = -1,
        .reason = "RankFailed",
        .last_lines = {"no rank printed anything for 20 s"}},
       "rank 1 on " + pod + ": no rank printed anything for 20 s"},
      {{.worker = pod, .exit_code = 2, .reason = api::kReasonLauncherLost},
       pod + " ended with exit code 2"},
  };
  for (const auto& [failure, text] : table) EXPECT_EQ(FailureText(failure), text);
}

TEST(CrashPolicy, OneKilledRankIsForgottenAndASecondOneInARowIsReported) {
  const api::TrainingJob job = OneWorker();
  api::TrainingJobStatus status;
  status.crashes = api::Crashes{.count = 1};
  status.failures = {{.worker = "digits-worker-0", .signal = 9, .reason = "RankFailed"}};

  EXPECT_EQ(CrashText(job, status), "");
  status.crashes->count = 2;
  EXPECT_THAT(CrashText(job, status), HasSubstr("It has happened 2 times in a row"));
}

TEST(CrashPolicy, ALauncherOutOfMemoryIsNamedToo) {
  const api::TrainingJob job = OneWorker();
  const Scene scene{.job = job,
                    .observed = SceneBuilder(job)
                                    .With(PodBuilder::Launcher(1).Ended(kKilled, "OOMKilled"))
                                    .Workers(1)
                                    .Build()};

  const Plan plan = scene.Make();

  ASSERT_FALSE(plan.status.failures.empty());
  EXPECT_EQ(plan.status.failures[0].reason, api::kReasonLauncherOOMKilled);
  EXPECT_THAT(plan.status.failures[0].last_lines.at(0), HasSubstr("spec.launcher.template"));
  EXPECT_THAT(EventReasons(plan), Contains("OOMKilled"));
  EXPECT_EQ(Count(plan.status), 1);
  EXPECT_EQ(plan.create_launcher, 2);
}

TEST(CrashPolicy, ThePodThatReachesTheLimitEndsTheJob) {
  api::TrainingJob job = OneWorker();
  for (int time = 1; time <= 5; ++time) {
    Scene scene = EndedWorker(job, PodBuilder::Worker(0).Ended(kKilled, "OOMKilled"), 10);
    PodView pod = *scene.observed.failed.at(0);
    pod.uid += std::to_string(time);
    pod.container.memory_limit = "64Mi";
    scene.observed.failed = {std::make_shared<const PodView>(pod)};
    scene.wall_now += std::chrono::seconds(20 * time);

    const Plan plan = scene.Make();

    job.status = plan.status;
    EXPECT_EQ(Count(plan.status), time);
    EXPECT_EQ(api::IsTrue(plan.status.conditions, api::kFailed), time == 5) << time;
    if (time < 5) continue;
    EXPECT_EQ(plan.status.failures.size(), 5U);
    EXPECT_THAT(MessageOf(plan.status, api::kFailed),
                AllOf(HasSubstr("OOMKilled: digits-worker-0 on node node-1 ran out of memory"),
                      HasSubstr("64Mi"), HasSubstr("5 times in a row"),
                      HasSubstr("runPolicy.restart.crashLimit")));
    EXPECT_THAT(EventReasons(plan), Contains("OOMKilled"));
    EXPECT_TRUE(plan.end_launcher.has_value());
    EXPECT_TRUE(plan.create_workers.empty());
  }
}

TEST(CrashPolicy, AFurtherStepRestartsTheCountAndARepeatedOneDoesNot) {
  api::TrainingJob job = OneWorker();
  job.status.crashes = api::Crashes{.count = 4, .of_launcher = 0, .step = 100, .time = ""};
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
  control::LauncherStatus answer = RunningWorld(1);

  answer.progress = control::Progress{.step = 90};  // after a roll-back
  scene.Answers(answer);
  EXPECT_EQ(Count(scene.Make().status), 4);

  answer.progress = control::Progress{.step = 101};
  scene.Answers(answer);
  EXPECT_FALSE(scene.Make().status.crashes.has_value());
}

TEST(CrashPolicy, ACrashAfterAFurtherStepIsTheFirstOfANewRow) {
  api::TrainingJob job = OneWorker();
  job.status.crashes = api::Crashes{.count = 4, .of_launcher = 0, .step = 100, .time = ""};

  const Plan plan = EndedWorker(job, PodBuilder::Worker(0).Ended(kKilled, "Error"), 200).Make();

  EXPECT_EQ(Count(plan.status), 1);
  EXPECT_EQ(plan.status.crashes->step, 200);
}

TEST(CrashPolicy, TheLaunchersCountIsPartOfItAndOutlivesTheLauncher) {
  api::TrainingJob job = OneWorker();
  job.status.crashes = api::Crashes{.count = 1, .of_launcher = 0, .step = 0, .time = ""};
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
  control::LauncherStatus answer = RunningWorld(1);
  answer.crashes = 3;
  scene.Answers(answer);
  const Plan counted = scene.Make();
  ASSERT_EQ(Count(counted.status), 4);
  EXPECT_EQ(counted.status.crashes->of_launcher, 3);
  scene.job.status = counted.status;
  scene.wall_now += std::chrono::minutes(1);
  EXPECT_EQ(scene.Make().status.crashes, counted.status.crashes) << "they are counted once";
  answer.crashes = 4;
  scene.Answers(answer);
  EXPECT_EQ(Count(scene.Make().status), 5) << "one more";
  answer.crashes = 3;
  scene.Answers(answer);

  // The launcher is evicted. The next launcher starts counting at 0.
  scene.job.status = counted.status;
  PodView evicted = *PodBuilder::Launcher(1).Ended(kKilled, "Error").Build();
  evicted.reason = "Evicted";
  scene.observed.launcher = std::make_shared<const PodView>(evicted);
  const Plan replaced = scene.Make();
  EXPECT_EQ(Count(replaced.status), 4);
  ASSERT_EQ(replaced.create_launcher, 2);

  Scene next{.job = job, .observed = SceneBuilder(job).Build()};
  next.job.status = replaced.status;
  next.observed = SceneBuilder(next.job).Launcher().Workers(1).Build();
  answer.crashes = 0;
  next.Answers(answer);
  EXPECT_EQ(Count(next.Make().status), 4);
  answer.crashes = 1;
  next.Answers(answer);
  const Plan over = next.Make();

  EXPECT_EQ(Count(over.status), 5);
  EXPECT_TRUE(api::IsTrue(over.status.conditions, api::kFailed));
}

TEST(CrashPolicy, WhereTheLauncherSawThemAllItsVerdictIsWaitedFor) {
  const api::TrainingJob job = OneWorker();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
  control::LauncherStatus answer = RunningWorld(1);
  answer.crashes = 5;
  scene.Answers(answer);

  const Plan plan = scene.Make();

  EXPECT_EQ(Count(plan.status), 5);
  EXPECT_FALSE(api::IsTrue(plan.status.conditions, api::kFailed));
}

TEST(CrashPolicy, ANodeThatTakesManyPodsAlongIsOneCrash) {
  const api::TrainingJob job = RunningJob(8);
  SceneBuilder builder = SceneBuilder(job).Launcher();
  for (int index = 0; index < 8; ++index) {
    builder.With(PodBuilder::Worker(index).Ended(kKilled, "Error"));
  }
  Scene scene{.job = job, .observed = builder.Build()};
  scene.Answers(RunningWorld(0));

  EXPECT_EQ(Count(scene.Make().status), 1);
}

TEST(CrashPolicy, EvictionsNeverCount) {
  api::TrainingJob job = OneWorker();
  for (int time = 1; time <= 20; ++time) {
    PodView pod = *PodBuilder::Worker(0).Ended(kKilled, "Error").Build();
    pod.uid += std::to_string(time);
    pod.reason = "Evicted";
    Scene scene = EndedWorker(job, PodBuilder::Worker(0).Ended(kKilled, "Error"));
    scene.observed.failed = {std::make_shared<const PodView>(pod)};
    scene.wall_now += std::chrono::seconds(20 * time);

    job.status = scene.Make().status;
  }

  EXPECT_FALSE(job.status.crashes.has_value());
  EXPECT_FALSE(api::IsTrue(job.status.conditions, api::kFailed));
}

TEST(CrashPolicy, ARankOutOfMemoryIsReportedAlthoughTheOthersContinue) {
  const api::TrainingJob job = RunningJob(2);
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(2).Build()};
  control::LauncherStatus answer = RunningWorld(2);
  answer.progress = control::Progress{.step = 7};
  control::RankExit exit{.rank = 1,
                         .pod_uid = "uid-worker-1",
                         .pod = "digits-worker-1",
                         .node = "node-1",
                         .slot = 0,
                         .start = "a",
                         .exit_code = -1,
                         .signal = 9,
                         .last_lines = {"step 7"}};
  exit.out_of_memory = control::OutOfMemory{64 << 20, 63 << 20};
  answer.failures = {exit};
  scene.Answers(answer);

  const Plan plan = scene.Make();

  ASSERT_EQ(plan.status.failures.size(), 1U);
  EXPECT_EQ(plan.status.failures[0].reason, "OOMKilled");
  EXPECT_THAT(plan.status.failures[0].last_lines.at(0),
              HasSubstr("the memory limit is 64 MiB, and at most 63 MiB were in use"));
  EXPECT_TRUE(std::ranges::any_of(
      plan.events, [](const auto& event) { return event.warning && event.reason == "OOMKilled"; }));
  EXPECT_THAT(MessageOf(plan.status, api::kWorkersReady), Not(HasSubstr("OOMKilled")));
  EXPECT_EQ(ReplacementDelay(plan.status.failures, FailedRole::kWorker, scene.wall_now).count(), 0);

  scene.job.status = plan.status;
  EXPECT_THAT(EventReasons(scene.Make()), Not(Contains("OOMKilled"))) << "once";
}

TEST(CrashPolicy, WhenAPodIsKilledAgainIsAnotherCrash) {
  struct Row {
    const char* command;
    const char* last;
    int count;  // number of crashes after another crash; three before
  };
  const Row table[] = {
      {"ringmaster-train", "2026-11-20T10:00:01Z", 4},
      {"ringmaster-train", "2026-11-20T10:00:00Z", 3},
      {"ringmaster-train", "2026-11-20T09:59:55Z", 3},
      {"ringmaster-train", "2026-11-20T09:59:54Z", 4},
      {"ringmaster-train", "2026-11-20T08:59:59Z", 4},
      // For a program without steps, crashes more than an hour ago are forgotten.
      {"my-program", "2026-11-20T09:00:00Z", 4},
      {"my-program", "2026-11-20T08:59:59Z", 1},
  };
  for (const auto& [command, last, count] : table) {
    api::TrainingJob job = OneWorker();
    job.spec.command = {command};
    job.status.crashes = api::Crashes{.count = 3, .of_launcher = 0, .step = 0, .time = last};

    const Plan plan = EndedWorker(job, PodBuilder::Worker(0).Ended(kKilled, "OOMKilled")).Make();

    EXPECT_EQ(Count(plan.status), count) << command << " " << last;
  }
}

TEST(CrashPolicy, AProgramThatRanForLongBeginsANewRowWithoutItsLauncherToo) {
  api::TrainingJob job = OneWorker();
  job.spec.command = {"my-program"};
  job.status.crashes =
      api::Crashes{.count = 3, .of_launcher = 2, .step = 0, .time = "2026-11-20T08:59:59Z"};
  Scene scene = EndedWorker(job, PodBuilder::Worker(0).Ended(kKilled, "OOMKilled"));
  scene.launcher->status.reset();

  EXPECT_EQ(Count(scene.Make().status), 1);
}

TEST(CrashPolicy, OfAProgramWithoutStepsWhatItsLauncherForgetsIsForgotten) {
  struct Row {
    const char* command;
    int reported;  // crashes that the launcher reports; earlier, it reported three of the four
    int count;
    const char* time;
  };
  const Row table[] = {
      {"my-program", 1, 2, kNewest},
      {"my-program", 0, 1, ""},
      {"ringmaster-train", 1, 4, ""},
  };
  for (const auto& [command, reported, count, time] : table) {
    api::TrainingJob job = OneWorker();
    job.spec.command = {command};
    job.status.crashes = api::Crashes{.count = 4, .of_launcher = 3, .step = 0, .time = ""};
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};
    control::LauncherStatus answer = RunningWorld(1);
    answer.crashes = reported;
    scene.Answers(answer);

    const Plan plan = scene.Make();

    EXPECT_EQ(Count(plan.status), count) << command;
    EXPECT_EQ(plan.status.crashes->time, time) << command;
    scene.job.status = plan.status;
    scene.wall_now += std::chrono::minutes(1);
    EXPECT_EQ(scene.Make().status.crashes, plan.status.crashes) << command << ": no news";
  }
}

// Restarts after changes of the world are not crashes. The last crash remains the reported reason.
TEST(CrashPolicy, AProgramThatWasRestartedHasNotCrashed) {
  api::TrainingJobStatus status;
  status.crashes = api::Crashes{.count = 2, .of_launcher = 0, .step = 0, .time = kNewest};
  status.failures = {{.worker = "digits-worker-1",
                      .start = "epoch 7",
                      .reason = api::kReasonProgramRestarted,
                      .time = kNewest},
                     {.worker = "digits-worker-0", .exit_code = kKilled, .reason = "OOMKilled"}};

  EXPECT_EQ(CrashReason(status), "OOMKilled");
}

TEST(CrashPolicy, AnOperatorThatHasNotAskedTheLauncherYetWaits) {
  api::TrainingJob job = OneWorker();
  job.status.crashes = api::Crashes{.count = 5, .of_launcher = 0, .step = 0, .time = ""};
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1).Build()};

  const Plan plan = scene.Make();

  EXPECT_FALSE(api::IsTrue(plan.status.conditions, api::kFailed));
  EXPECT_TRUE(plan.requeue_after.has_value());
}

TEST(CrashPolicy, TheNewestCrashIsReported) {
  struct Row {
    const char* name;
    api::Failure failure;
    const char* reason;  // null: not a crash
  };
  const Row table[] = {
      {"killed by signal 1", {.signal = 1, .reason = "RankFailed"}, control::kReasonCrashLoop},
      {"exit code 128", {.exit_code = 128, .reason = "Error"}, nullptr},
      {"exit code 129", {.exit_code = 129, .reason = "Error"}, control::kReasonCrashLoop},
      {"exit code 159", {.exit_code = 159, .reason = "Error"}, control::kReasonCrashLoop},
      {"exit code 160", {.exit_code = 160, .reason = "Error"}, nullptr},
      {"exit code 1", {.exit_code = 1, .reason = "Error"}, nullptr},
      {"a rank that ended while it loaded",
       {.start = "a", .exit_code = 1, .reason = "RankFailed"},
       control::kReasonCrashLoop},
      {"rank 0", {.rank = 0, .start = "a", .exit_code = 1, .reason = "RankFailed"}, nullptr},
      {"out of memory", {.exit_code = 1, .reason = "OOMKilled"}, control::kReasonOOMKilled},
      {"the launcher out of memory",
       {.exit_code = 1, .reason = api::kReasonLauncherOOMKilled},
       control::kReasonOOMKilled},
  };
  for (const Row& row : table) {
    api::TrainingJobStatus status;
    status.crashes = api::Crashes{.count = 2, .of_launcher = 0, .step = 0, .time = kNewest};
    status.failures = {row.failure};

    EXPECT_EQ(!CrashText(OneWorker(), status).empty(), row.reason != nullptr) << row.name;
    if (row.reason != nullptr) {
      EXPECT_EQ(CrashReason(status), row.reason) << row.name;
    }
  }
  EXPECT_EQ(CrashReason({}), control::kReasonCrashLoop) << "others have pushed it out";
}

TEST(CrashPolicy, TheJobFailsAtItsLimitUnlessItsLauncherSaysSoItself) {
  struct Row {
    int limit;
    std::optional<api::Crashes> crashes;
    bool fails;
    const char* said;  // the message if the job does not fail
  };
  const auto crashes = [](int count, int of_launcher) {
    return api::Crashes{.count = count, .of_launcher = of_launcher, .step = 0, .time = kNewest};
  };
  const Row table[] = {
      {5, std::nullopt, false, ""},
      {5, crashes(4, 0), false, "; the job fails at 5 (runPolicy.restart.crashLimit)"},
      {5, crashes(5, 0), true, "; the job fails at 5 (runPolicy.restart.crashLimit)"},
      {5, crashes(5, 5), false, "; the job fails at 5 (runPolicy.restart.crashLimit)"},
      {5, crashes(6, 5), true, "; the job fails at 5 (runPolicy.restart.crashLimit)"},
      {1, crashes(1, 0), true, "; the job fails at 1 (runPolicy.restart.crashLimit)"},
      {0, crashes(100, 0), false, " without a completed step"},
  };
  for (const Row& row : table) {
    api::TrainingJob job = OneWorker();
    job.spec.run_policy.restart = api::RestartLimit{.crash_limit = row.limit};
    api::TrainingJobStatus status;
    status.crashes = row.crashes;
    status.failures = {{.worker = "digits-worker-0", .reason = "OOMKilled"}};

    EXPECT_EQ(JudgeCrashes(job, status).has_value(), row.fails) << row.limit << row.said;
    EXPECT_TRUE(CrashText(job, status).ends_with(row.said)) << CrashText(job, status);
  }
}

TEST(CrashPolicy, WhereNoLimitIsSetItIsTheNodeThatHadNoMemoryLeft) {
  EXPECT_EQ(MemoryText(*PodBuilder::Worker(0).Build()),
            "the container has no memory limit, so its node or Pod ran out of memory; set "
            "spec.worker.resources.requests.memory (or the request in spec.worker.template)");
}

}  // namespace
}  // namespace ringmaster::job
