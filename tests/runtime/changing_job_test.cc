// Tests workers and launchers that are added and lost, with ranks that have no model.
// elastic_job_test.cc does the same with the real trainer.

#include <csignal>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using control::LauncherPhase;
using testing::HasSubstr;

class ChangingJob : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  // Returns a program whose ranks run until the test creates the gate file.
  static control::LaunchSpec Endless() {
    control::LaunchSpec spec;
    spec.command = {FakeTrainProgram(), "--until=" + GateFile()};
    return spec;
  }
  static std::string GateFile() { return "/var/tmp/rmt-gate-" + std::to_string(getpid()); }
  static void LetThemEnd() { WriteFile(GateFile(), ""); }
  void TearDown() override { unlink(GateFile().c_str()); }

  static bool RunsWith(Job& job, int ranks, std::int64_t term = 1) {
    return WaitUntil(Seconds(60), [&] {
      const control::LauncherStatus status = job.Status();
      return status.phase == LauncherPhase::kRunning && status.world_size == ranks &&
             status.epoch.term == term;
    });
  }
};

TEST_F(ChangingJob, ReplacesAWorkerWhoseAgentWasKilled) {
  Job job(3, Endless());
  job.StartLauncher();
  job.StartAgent(0);
  job.StartAgent(1);
  job.SendOrder({0, 1});
  ASSERT_TRUE(RunsWith(job, 2));
  const auto before = job.Status().epoch;

  Hosts::Signal(job.agent(1), SIGKILL);
  ASSERT_TRUE(job.agent(1).Wait(Seconds(10)).has_value());
  job.StartAgent(1, "uid-1-2");
  job.SendOrder({0, 1});

  ASSERT_TRUE(WaitUntil(Seconds(60), [&] {
    const control::LauncherStatus status = job.Status();
    return status.phase == LauncherPhase::kRunning && status.epoch > before;
  })) << job.Status().message;
  LetThemEnd();
  const control::Verdict verdict = job.AwaitVerdict();
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 2);
  EXPECT_GT(verdict.epoch, before);
}

TEST_F(ChangingJob, GrowsFromTwoToThreeWorkers) {
  Job job(4, Endless());
  job.StartLauncher();
  job.StartAgent(0);
  job.StartAgent(1);
  job.SendOrder({0, 1});
  ASSERT_TRUE(RunsWith(job, 2));

  job.StartAgent(2);
  job.SendOrder({0, 1, 2});

  ASSERT_TRUE(RunsWith(job, 3)) << job.Status().message;
  LetThemEnd();
  const control::Verdict verdict = job.AwaitVerdict();
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 3);
}

TEST_F(ChangingJob, ATerminatedWorkerLeavesInOrderAndItsReplacementJoins) {
  Job job(3, Endless());
  job.StartLauncher();
  job.StartAgent(0);
  job.StartAgent(1);
  job.SendOrder({0, 1});
  job.SendOrder({0, 1}, 1);
  ASSERT_TRUE(RunsWith(job, 2));

  Hosts::Signal(job.agent(1), SIGTERM);

  const auto outcome = job.agent(1).Wait(Seconds(20));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->exit_code, 128 + SIGTERM);
  EXPECT_THAT(job.agent(1).Log(), HasSubstr("the job, which continues without this worker"));
  job.StartAgent(1, "uid-1-2");
  job.SendOrder({0, 1});
  ASSERT_TRUE(RunsWith(job, 2));
  LetThemEnd();
  EXPECT_TRUE(job.AwaitVerdict().succeeded);
}

// A Pod is killed after a grace period of 10 s, so the agent must send all messages before that.
TEST_F(ChangingJob, ATerminatedWorkerWithoutALauncherEndsInTime) {
  Job job(2, Endless());
  job.StartLauncher();
  job.StartAgent(0);
  job.SendOrder({0});
  ASSERT_TRUE(RunsWith(job, 1));
  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());

  Hosts::Signal(job.agent(0), SIGTERM);

  const auto outcome = job.agent(0).Wait(Seconds(10));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->exit_code, 128 + SIGTERM);
  EXPECT_THAT(job.agent(0).Log(), HasSubstr("grace period is over"));
}

TEST_F(ChangingJob, ANewLauncherOfTheNextTermTakesOver) {
  Job job(3, Endless());
  job.StartLauncher(1);
  job.StartAgent(0);
  job.StartAgent(1);
  job.SendOrder({0, 1});
  ASSERT_TRUE(RunsWith(job, 2));
  const auto before = job.Status().epoch;

  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());
  job.StartLauncher(2);
  job.SendOrder({0, 1});

  ASSERT_TRUE(RunsWith(job, 2)) << job.Status().message;
  EXPECT_EQ(job.Status().term, 2);
  EXPECT_EQ(job.Status().epoch, before) << "the ranks were disturbed";
  LetThemEnd();
  const control::Verdict verdict = job.AwaitVerdict();
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 2);
}

TEST_F(ChangingJob, AnOldLauncherIsNotFollowed) {
  Job job(2, Endless());
  job.StartLauncher(2);
  job.StartAgent(0);
  job.SendOrder({0});
  ASSERT_TRUE(RunsWith(job, 1, 2));

  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());
  job.StartLauncher(1);
  job.SendOrder({0});

  // The launcher closes the connection. The agent connects again, but its worker is not admitted.
  EXPECT_FALSE(
      WaitUntil(Seconds(4), [&] { return job.Status().phase == LauncherPhase::kRunning; }));
  EXPECT_FALSE(job.agent(0).Wait(Seconds(0)).has_value());
}

}  // namespace
}  // namespace ringmaster::runtime_test
