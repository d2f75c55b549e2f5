// Tests the real trainer while its world changes: ranks, agents, hosts and the launcher are killed,
// a host is disconnected, workers join and leave. The job must succeed each time, and the ranks'
// audit logs must prove that no step was lost or repeated.

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "tests/fakes/patience.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using control::Epoch;
using control::LauncherPhase;
using control::LauncherStatus;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 300;  // over twice the steps that complete while two workers load
// Enough steps for two checkpoints, even if the volume takes seconds for each.
constexpr std::int64_t kStepsWithCheckpoints = 1000;
constexpr std::int64_t kEvery = 40;  // steps from one checkpoint to the next
constexpr Seconds kLimit{120};

struct Step {
  std::int64_t step = 0;
  Epoch epoch;  // epoch of the world that computed the step
  int world_size = 0;
};

class ElasticJob : public LoggedTest {
 protected:
  std::int64_t steps_ = kSteps;

  control::LaunchSpec Trainer() const { return TrainerSpec(steps_, StepLog()); }
  control::LaunchSpec TrainerWithCheckpoints() const {
    control::LaunchSpec spec = Trainer();
    spec.command.insert(spec.command.end(), {"--checkpoint-dir=" + Checkpoints(),
                                             "--checkpoint-every=" + std::to_string(kEvery)});
    return spec;
  }
  // Returns the launch spec of a model whose class centres are distributed over the ranks.
  control::LaunchSpec ShardedTrainer() const {
    control::LaunchSpec spec = Trainer();
    spec.command.insert(
        spec.command.end(),
        {"--workload=partial-fc", "--data=synthetic", "--classes=300", "--image-side=28",
         "--backbone=small", "--embedding=32", "--sample-rate=0.3", "--replica-every=20"});
    return spec;
  }
  std::string Checkpoints() const { return logs_ + "/checkpoints"; }
  // Returns the job's checkpoint folder; empty until the job's first rank has created it.
  std::string JobsOwn() const {
    std::error_code none_yet;
    const std::filesystem::directory_iterator own(Checkpoints() + "/team/digits", none_yet);
    return own == std::filesystem::directory_iterator() ? "" : own->path().string();
  }
  // Returns the steps of the complete checkpoints, newest last.
  std::vector<std::int64_t> CompleteSteps() const {
    std::vector<std::int64_t> steps;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(JobsOwn(), none_yet)) {
      const std::string name = entry.path().filename();
      const bool aside = name.starts_with('.');  // still being written
      if (!aside && std::filesystem::exists(entry.path() / "DONE")) {
        steps.push_back(std::stoll(name.substr(name.find('-') + 1)));
      }
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  // Returns the step from which training resumed, from the step log; -1: the log has no such line.
  std::int64_t ResumedFrom(const std::string& what) const {
    const std::string log = ReadFile(StepLog());
    const std::size_t at = log.find("{\"resumed\"");
    if (at == std::string::npos) return -1;
    const auto line = nlohmann::json::parse(log.substr(at, log.find('\n', at) - at));
    EXPECT_EQ(line["resumed"]["from"].get<std::string>(), what);
    return line["resumed"]["step"].get<std::int64_t>();
  }
  std::string StepLog() const { return logs_ + "/steps.jsonl"; }

  // Starts workers 0 … count - 1 and waits until they train.
  void Begin(Job& job, int count, int min_replicas) {
    std::vector<int> all;
    job.StartLauncher();
    for (int worker = 0; worker < count; ++worker) {
      job.StartAgent(worker);
      all.push_back(worker);
    }
    job.SendOrder(all, min_replicas);
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return LastStep().step >= 5; })) << job.Status().message;
  }

  // Requests a checkpoint of a job that has none scheduled, and expects exactly one checkpoint.
  void ExpectCheckpointOnDemand(control::LaunchSpec spec) {
    spec.command.insert(spec.command.end(),
                        {"--checkpoint-dir=" + Checkpoints(), "--checkpoint-every=1000000"});
    Job job(3, spec);
    ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
    EXPECT_TRUE(CompleteSteps().empty());
    const std::int64_t step = LastStep().step;

    job.wants_checkpoint = true;
    job.SendOrder({0, 1});

    EXPECT_TRUE(WaitUntil(kLimit, [&] { return job.Status().checkpoint.has_value(); }))
        << job.Log();
    EXPECT_GE(job.Status().checkpoint.value_or(control::CheckpointReport{}).step, step);
    EXPECT_EQ(CompleteSteps().size(), 1U);
  }

  // Returns the last step in the step log; all fields are 0 before the first step.
  Step LastStep() const {
    const std::string log = ReadFile(StepLog());
    const std::size_t end = log.rfind('\n');
    if (end == std::string::npos || end == 0) return {};
    const std::size_t begin = log.rfind('\n', end - 1);
    const std::size_t at = begin == std::string::npos ? 0 : begin + 1;
    return ParseStep(log.substr(at, end - at));
  }
  static Step ParseStep(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("world_epoch")) return {};
    const auto& epoch = json["world_epoch"];
    return {json["step"].get<std::int64_t>(),
            {epoch[0].get<std::int64_t>(), epoch[1].get<std::int64_t>()},
            json["world_size"].get<int>()};
  }

  // Waits for the first step of a newer world than `before`, and prints how long that took.
  void ExpectGoesOn(Job& job, const Epoch& before, steady_clock::time_point since,
                    const char* what) {
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return LastStep().epoch > before; }))
        << what << ": " << job.Status().message;
    const auto took = steady_clock::now() - since;
    std::printf("%s: the next step after %lld ms\n", what,
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  }

  // Waits for a step of a world that has `ranks` ranks and is newer than `before`.
  void ExpectTrainsWith(Job& job, int ranks, const Epoch& before = {}) {
    ASSERT_TRUE(WaitUntil(kLimit,
                          [&] {
                            const Step step = LastStep();
                            return step.world_size == ranks && step.epoch > before;
                          }))
        << "never trained with " << ranks << " ranks: " << job.Status().message;
  }

  pid_t RankOf(Job& job, int worker) const {
    const std::vector<pid_t> ranks = Hosts::Find(job.agent(worker), "ringmaster-train");
    return ranks.empty() ? -1 : ranks.front();
  }

  // Expects that the job succeeds, that every step was done once, and that the loss is a number.
  void ExpectEndsWell(Job& job) {
    const Ran audit = EndAndAudit(job);
    EXPECT_EQ(audit.exit_code, 0) << audit.output;
  }
  // Like ExpectEndsWell(), but the audit may report a roll-back of up to `at_most` steps.
  void ExpectEndsWellAfterARollBack(Job& job, std::int64_t at_most) {
    const Ran audit = EndAndAudit(job);
    const std::size_t at = audit.output.find("{\"steps\"");
    ASSERT_NE(at, std::string::npos) << audit.output;
    const auto summary = nlohmann::json::parse(audit.output.substr(at), nullptr, false);
    ASSERT_TRUE(summary.is_object()) << audit.output;
    const auto rolled_back = summary["rolled_back"].get<std::int64_t>();
    EXPECT_LE(rolled_back, at_most);
    EXPECT_EQ(audit.exit_code, rolled_back > 0 ? 4 : 0) << audit.output;
  }
  Ran EndAndAudit(Job& job) {
    std::printf("all of it had happened by step %lld of %lld\n",
                static_cast<long long>(LastStep().step), static_cast<long long>(steps_));
    const control::Verdict verdict = job.AwaitVerdict(Seconds(240));
    EXPECT_TRUE(verdict.succeeded) << verdict.message;
    EXPECT_TRUE(verdict.progress.has_value());
    if (verdict.progress) {
      EXPECT_EQ(verdict.progress->step, steps_);
      EXPECT_TRUE(std::isfinite(verdict.progress->loss)) << verdict.progress->loss;
    }
    Ran audit = Audit(steps_);
    std::printf("%s", audit.output.c_str());
    return audit;
  }

  void ExpectGoesOnWithoutAKilledRank(const control::LaunchSpec& spec, const char* what) {
    Job job(4, spec);
    ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
    const Epoch before = LastStep().epoch;

    const auto killed = steady_clock::now();
    ASSERT_TRUE(SendSignal(RankOf(job, 1), SIGKILL));

    ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, killed, what));
    ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 3, before));
    ExpectEndsWell(job);
  }
};

TEST_F(ElasticJob, ContinuesWithoutAKilledRankWhichRejoins) {
  ExpectGoesOnWithoutAKilledRank(Trainer(), "a rank was killed");
}

TEST_F(ElasticJob, FormsTheSameWorldAgainWhenOnlyConnectionsBreak) {
  Job job(4, Trainer());
  job.launcher_extra = {{control::kEnvLostAfterMillis, std::to_string(2000 * Patience())}};
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 3));
  const Epoch before = LastStep().epoch;

  const auto broke = steady_clock::now();
  ASSERT_GT(Hosts::BreakConnections(RankOf(job, 1)), 0);

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, broke, "connections broke"));
  EXPECT_EQ(LastStep().epoch.number, before.number + 1) << "a worker was lost";
  EXPECT_TRUE(job.Status().failures.empty());
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ContinuesWithoutAKilledRankWhoseClassCentresNoOtherRankHad) {
  ExpectGoesOnWithoutAKilledRank(ShardedTrainer(), "a rank with centres was killed");
}

TEST_F(ElasticJob, ClassCentresFollowAJobThatGrowsFromTwoToFourAndShrinksAgain) {
  Job job(5, ShardedTrainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
  const Epoch two = LastStep().epoch;

  job.StartAgent(2);
  job.StartAgent(3);
  job.SendOrder({0, 1, 2, 3}, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 4, two));
  const Epoch four = LastStep().epoch;
  job.SendOrder({0, 1}, 2);  // two workers leave; one has the copy of the other's rows

  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 2, four));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ContinuesWithoutTwoOfFourRanksKilledAtOnceWithTwoOnAWorker) {
  control::LaunchSpec spec = Trainer();
  spec.slots_per_worker = 2;
  Job job(3, spec);
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
  const Epoch before = LastStep().epoch;

  const auto killed = steady_clock::now();
  ASSERT_TRUE(SendSignal(RankOf(job, 0), SIGKILL));
  ASSERT_TRUE(SendSignal(RankOf(job, 1), SIGKILL));

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, killed, "two ranks were killed"));
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 4, before));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ContinuesWithoutAKilledAgentAndAdmitsItsReplacement) {
  Job job(4, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto killed = steady_clock::now();
  Hosts::Signal(job.agent(1), SIGKILL);
  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, killed, "an agent was killed"));
  ASSERT_TRUE(job.agent(1).Wait(Seconds(10)).has_value());
  job.StartAgent(1, "uid-1-2");
  job.SendOrder({0, 1, 2}, 2);

  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 3, before));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ContinuesWithoutTheHostOfRankZero) {
  Job job(4, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto killed = steady_clock::now();
  Hosts::Signal(job.agent(0), SIGKILL);

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, killed, "the agent of rank 0 was killed"));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ContinuesWithoutASilentHostAndNeverAdmitsTheFencedPod) {
  Job job(5, Trainer());
  job.launcher_extra = {{control::kEnvLostAfterMillis, std::to_string(1000 * Patience())}};
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto cut = steady_clock::now();
  job.hosts().SetCut(2, true);  // the host of worker 1
  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, cut, "a host was cut off"));
  job.StartAgent(3);
  job.SendOrder({0, 2, 3}, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 3, before));
  job.hosts().SetCut(2, false);

  const auto fenced = job.agent(1).Wait(Seconds(30));
  ASSERT_TRUE(fenced.has_value()) << "the fenced Pod was not refused";
  EXPECT_EQ(fenced->exit_code, 1);
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, GrowsFromTwoToFourAndShrinksAgain) {
  Job job(5, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
  const Epoch two = LastStep().epoch;

  job.StartAgent(2);
  job.StartAgent(3);
  job.SendOrder({0, 1, 2, 3}, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 4, two));
  const Epoch four = LastStep().epoch;
  job.SendOrder({0, 1}, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 2, four));
  for (const int worker : {2, 3}) Hosts::Signal(job.agent(worker), SIGTERM);

  for (const int worker : {2, 3}) {
    const auto outcome = job.agent(worker).Wait(Seconds(10));
    ASSERT_TRUE(outcome.has_value()) << "worker " << worker << " still runs";
    EXPECT_EQ(outcome->exit_code, 128 + SIGTERM);
  }
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ALeavingWorkerLeavesAtTheEndOfAStep) {
  Job job(4, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto told = steady_clock::now();
  Hosts::Signal(job.agent(2), SIGTERM);

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, told, "an agent was told to go"));
  const auto outcome = job.agent(2).Wait(Seconds(10));
  ASSERT_TRUE(outcome.has_value()) << "the agent still runs";
  EXPECT_EQ(outcome->exit_code, 128 + SIGTERM);
  EXPECT_THAT(job.agent(2).Log(), HasSubstr("the job, which continues without this worker"));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ANewLauncherTakesOverWithoutDisturbingTheRanks) {
  Job job(4, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Step before = LastStep();
  const std::vector<pid_t> ranks = {RankOf(job, 0), RankOf(job, 1), RankOf(job, 2)};

  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());
  const std::int64_t alone = LastStep().step;
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return LastStep().step >= alone + 20; }))
      << "ranks need no launcher to go on";
  const auto restarted = steady_clock::now();
  job.StartLauncher(2);
  job.SendOrder({0, 1, 2}, 2);
  ASSERT_TRUE(WaitUntil(kLimit, [&] {
    const LauncherStatus status = job.Status();
    return status.phase == LauncherPhase::kRunning && status.world_size == 3;
  })) << job.Status().message;
  std::printf("a launcher was started again: it leads after %lld ms\n",
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                         steady_clock::now() - restarted)
                                         .count()));

  EXPECT_EQ(LastStep().epoch, before.epoch) << "the world was formed again";
  EXPECT_EQ(ranks, (std::vector<pid_t>{RankOf(job, 0), RankOf(job, 1), RankOf(job, 2)}));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ANewLauncherKnowsTheCheckpointThatTheOneBeforeGranted) {
  control::LaunchSpec spec = Trainer();
  spec.command.insert(spec.command.end(),
                      {"--checkpoint-dir=" + Checkpoints(), "--checkpoint-every=1000000"});
  Job job(3, spec);
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
  job.wants_checkpoint = true;
  job.SendOrder({0, 1}, 2);
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return job.Status().checkpoint.has_value(); })) << job.Log();
  const std::int64_t kept = job.Status().checkpoint->step;
  job.wants_checkpoint = false;

  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());
  job.StartLauncher(2);
  job.SendOrder({0, 1}, 2);

  ASSERT_TRUE(WaitUntil(kLimit, [&] { return job.Status().checkpoint.has_value(); })) << job.Log();
  EXPECT_EQ(job.Status().checkpoint->step, kept);
  EXPECT_EQ(CompleteSteps(), std::vector<std::int64_t>{kept});
}

TEST_F(ElasticJob, PausesBelowItsMinimumAndContinuesWithTheReplacement) {
  Job job(3, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
  const Epoch before = LastStep().epoch;

  Hosts::Signal(job.agent(1), SIGKILL);
  ASSERT_TRUE(job.WaitForPhase(LauncherPhase::kPaused)) << job.Status().message;
  EXPECT_EQ(job.Status().pause_reason, control::kPauseBelowMinReplicas);
  ASSERT_TRUE(job.agent(1).Wait(Seconds(10)).has_value());
  job.StartAgent(1, "uid-1-2");
  job.SendOrder({0, 1}, 2);

  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 2, before));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, ResumesFromTheNewestCheckpointIfAllWorkersAreKilled) {
  steps_ = kStepsWithCheckpoints;
  Job job(3, TrainerWithCheckpoints());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 1));
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return CompleteSteps().size() >= 2; })) << job.Log();
  EXPECT_TRUE(WaitUntil(kLimit, [&] { return job.Status().checkpoint.has_value(); }));
  const Epoch before = LastStep().epoch;

  for (const int worker : {0, 1}) Hosts::Signal(job.agent(worker), SIGKILL);
  for (const int worker : {0, 1}) ASSERT_TRUE(job.agent(worker).Wait(Seconds(10)).has_value());
  const std::int64_t newest = CompleteSteps().back();
  for (const int worker : {0, 1}) {
    job.StartAgent(worker, "uid-" + std::to_string(worker) + "-2");
  }
  job.SendOrder({0, 1}, 1, {"uid-0-1", "uid-1-1"});

  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 2, before));
  EXPECT_EQ(ResumedFrom("checkpoint"), newest);
  EXPECT_TRUE(WaitUntil(kLimit, [&] { return job.Status().last_recovery.has_value(); }));
  EXPECT_LE(job.Status().last_recovery->steps_lost, 3 * kEvery);
  ExpectEndsWellAfterARollBack(job, 3 * kEvery);
  EXPECT_EQ(CompleteSteps().size(), 3U);
  EXPECT_EQ(CompleteSteps().back(), steps_);
}

TEST_F(ElasticJob, TakesACheckpointOutOfTurnWhenItIsAskedFor) {
  steps_ = kStepsWithCheckpoints;
  ExpectCheckpointOnDemand(Trainer());
}

TEST_F(ElasticJob, TakesACheckpointOfStateThatIsSpreadOutOfTurnWhenItIsAskedFor) {
  steps_ = kStepsWithCheckpoints;
  ExpectCheckpointOnDemand(ShardedTrainer());
}

TEST_F(ElasticJob, ASmallerWorldResumesFromTheOneBeforeIfTheNewestCheckpointIsDamaged) {
  steps_ = kStepsWithCheckpoints;
  Job job(3, TrainerWithCheckpoints());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 1));
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return CompleteSteps().size() >= 2; })) << job.Log();
  const Epoch before = LastStep().epoch;

  for (const int worker : {0, 1}) Hosts::Signal(job.agent(worker), SIGKILL);
  for (const int worker : {0, 1}) ASSERT_TRUE(job.agent(worker).Wait(Seconds(10)).has_value());
  const std::vector<std::int64_t> steps = CompleteSteps();
  const std::string damaged = JobsOwn() + "/" + std::to_string(before.term) + "." +
                              std::to_string(before.number) + "-" + std::to_string(steps.back());
  std::filesystem::resize_file(damaged + "/shard-0", 5000);
  job.StartAgent(0, "uid-0-2");
  job.SendOrder({0}, 1, {"uid-0-1", "uid-1-1"});

  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 1, before));
  EXPECT_EQ(ResumedFrom("checkpoint"), steps[steps.size() - 2]);
  EXPECT_THAT(job.Log(), HasSubstr("Skipped a damaged checkpoint"));
  ExpectEndsWellAfterARollBack(job, 4 * kEvery);
}

TEST_F(ElasticJob, ResumesFromItsSnapshotsIfAllRanksAreKilled) {
  Job job(3, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return LastStep().step >= 100; }));
  const Epoch before = LastStep().epoch;

  const std::array ranks = {RankOf(job, 0), RankOf(job, 1)};
  for (const pid_t rank : ranks) ASSERT_TRUE(SendSignal(rank, SIGKILL));

  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 2, before));
  // The interval of snapshots depends on their cost, and so on the load of the machine.
  const int at_most = 10 * Patience();
  EXPECT_GE(ResumedFrom("snapshot"), 100 - at_most);
  ExpectEndsWellAfterARollBack(job, at_most);
}

}  // namespace
}  // namespace ringmaster::runtime_test
