// The real trainer while its world changes: ranks, agents, hosts and the launcher are killed, a
// host is cut off, workers join and leave. The job must end well each time, and the ranks' audit
// logs must prove that no step was lost or repeated.

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using control::Epoch;
using control::LauncherPhase;
using control::LauncherStatus;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 500;  // more than twice what passes while two workers load
constexpr Seconds kLimit{120};

struct Step {
  std::int64_t step = 0;
  Epoch epoch;  // of the world that computed it
  int world_size = 0;
};

class ElasticJob : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
    // All hosts see it: they have a /tmp of their own, but share the rest.
    std::array<char, 32> name{"/var/tmp/rmt-logs-XXXXXX"};
    logs_ = mkdtemp(name.data());
  }
  void TearDown() override {
    if (HasFailure()) {
      std::printf("logs of steps and audit are kept in %s\n", logs_.c_str());
    } else if (!logs_.empty()) {
      std::filesystem::remove_all(logs_);
    }
  }

  control::LaunchSpec Trainer() const {
    control::LaunchSpec spec;
    spec.command = {TrainProgram(),
                    "--workload=mnist",
                    "--data=generated",
                    "--generated-samples=2048",
                    "--seed=7",
                    "--global-batch=24",
                    "--steps=" + std::to_string(kSteps),
                    "--step-log=" + StepLog(),
                    "--audit-log=" + logs_ + "/audit"};
    return spec;
  }
  std::string StepLog() const { return logs_ + "/steps.jsonl"; }

  // Workers 0 … count - 1, training.
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

  // The newest step in the log of the steps; nothing (0) before the first.
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

  // Waits for the first step of a newer world than `before`, and says how long that took.
  void ExpectGoesOn(Job& job, const Epoch& before, steady_clock::time_point since,
                    const char* what) {
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return LastStep().epoch > before; }))
        << what << ": " << job.Status().message;
    const auto took = steady_clock::now() - since;
    std::printf("%s: the next step after %lld ms\n", what,
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  }

  // Trains in a world of so many ranks, newer than `before`.
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

  // The job succeeds, every step was done once, and the loss is a number.
  void ExpectEndsWell(Job& job) {
    std::printf("all of it had happened by step %lld of %lld\n",
                static_cast<long long>(LastStep().step), static_cast<long long>(kSteps));
    const control::Verdict verdict = job.AwaitVerdict(Seconds(240));
    ASSERT_TRUE(verdict.succeeded) << verdict.message;
    ASSERT_TRUE(verdict.progress.has_value());
    EXPECT_EQ(verdict.progress->step, kSteps);
    EXPECT_TRUE(std::isfinite(verdict.progress->loss)) << verdict.progress->loss;
    const Ran audit =
        RunCommand({AuditProgram(), logs_ + "/audit", "--expect-steps=" + std::to_string(kSteps)});
    std::printf("%s", audit.output.c_str());
    EXPECT_EQ(audit.exit_code, 0) << audit.output;
  }

  std::string logs_;
};

TEST_F(ElasticJob, GoesOnWithoutAKilledRankWhichComesBack) {
  Job job(4, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto killed = steady_clock::now();
  ASSERT_EQ(kill(RankOf(job, 1), SIGKILL), 0);

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, killed, "a rank was killed"));
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 3, before));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, GoesOnWithoutTwoOfFourRanksKilledAtOnceWithTwoOnAWorker) {
  control::LaunchSpec spec = Trainer();
  spec.slots_per_worker = 2;
  Job job(3, spec);
  ASSERT_NO_FATAL_FAILURE(Begin(job, 2, 2));
  const Epoch before = LastStep().epoch;

  const auto killed = steady_clock::now();
  ASSERT_EQ(kill(RankOf(job, 0), SIGKILL), 0);
  ASSERT_EQ(kill(RankOf(job, 1), SIGKILL), 0);

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, killed, "two ranks were killed"));
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 4, before));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, GoesOnWithoutAKilledAgentAndTakesItsReplacement) {
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

TEST_F(ElasticJob, GoesOnWithoutTheHostOfRankZero) {
  Job job(4, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto killed = steady_clock::now();
  Hosts::Signal(job.agent(0), SIGKILL);

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, killed, "the agent of rank 0 was killed"));
  ExpectEndsWell(job);
}

TEST_F(ElasticJob, GoesOnWithoutAHostThatFellSilentAndNeverLetsItsGhostIn) {
  Job job(5, Trainer());
  job.launcher_extra = {{control::kEnvLostAfterMillis, "1000"}};
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto cut = steady_clock::now();
  job.hosts().SetCut(2, true);  // of worker 1
  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, cut, "a host was cut off"));
  job.StartAgent(3);
  job.SendOrder({0, 2, 3}, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectTrainsWith(job, 3, before));
  job.hosts().SetCut(2, false);

  const auto ghost = job.agent(1).Wait(Seconds(30));
  ASSERT_TRUE(ghost.has_value()) << "the ghost was not refused";
  EXPECT_EQ(ghost->exit_code, 1);
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

TEST_F(ElasticJob, AWorkerThatIsToldToGoLeavesAtAStepsEnd) {
  Job job(4, Trainer());
  ASSERT_NO_FATAL_FAILURE(Begin(job, 3, 2));
  const Epoch before = LastStep().epoch;

  const auto told = steady_clock::now();
  Hosts::Signal(job.agent(2), SIGTERM);

  ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(job, before, told, "an agent was told to go"));
  const auto outcome = job.agent(2).Wait(Seconds(10));
  ASSERT_TRUE(outcome.has_value()) << "the agent still runs";
  EXPECT_EQ(outcome->exit_code, 128 + SIGTERM);
  EXPECT_THAT(job.agent(2).Log(), HasSubstr("the job, which goes on without this worker"));
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

TEST_F(ElasticJob, PausesBelowItsMinimumAndGoesOnWithTheReplacement) {
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

}  // namespace
}  // namespace ringmaster::runtime_test
