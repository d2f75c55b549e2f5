// Tests what must fail: an mpirun that ignores the hostfile, foreign agents, replaced credentials.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using testing::HasSubstr;

class Refusal : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  static control::LaunchSpec FakeTraining() {
    control::LaunchSpec spec;
    spec.command = {FakeTrainProgram(), "--steps=1"};
    return spec;
  }

  // Installs an mpirun that replaces --hostfile and its value with `instead`. Open MPI 5 ignores a
  // hostfile that is given with the options of version 4.
  static void BreakMpirun(Job* job, const std::string& instead) {
    std::filesystem::create_directory(job->Path("bin"));
    const std::string file = job->Path("bin/mpirun");
    WriteFile(file, R"(#!/bin/bash
arguments=()
while [ $# -gt 0 ]; do
  if [ "$1" = --hostfile ]; then
    shift 2
    arguments+=()" + instead +
                        R"()
  else
    arguments+=("$1")
    shift
  fi
done
exec /usr/bin/mpirun "${arguments[@]}"
)");
    std::filesystem::permissions(file, std::filesystem::perms::all);
    job->launcher_extra = {{"PATH", job->Path("bin") + ":/usr/bin:/bin:/usr/sbin:/sbin"}};
  }

  static control::Verdict RunTwoWorkers(Job* job) {
    job->StartLauncher();
    job->StartAgent(0);
    job->StartAgent(1);
    job->SendOrder({0, 1});
    return job->AwaitVerdict();
  }
};

TEST_F(Refusal, EveryRankOnTheLaunchersHostIsAWorldMismatch) {
  Job job(3, FakeTraining());
  BreakMpirun(&job, "--oversubscribe");

  const control::Verdict verdict = RunTwoWorkers(&job);

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_EQ(verdict.reason, control::kReasonWorldMismatch) << verdict.message;
}

TEST_F(Refusal, EveryRankOnOneWorkerIsAWorldMismatchThoughTheCountIsRight) {
  Job job(3, FakeTraining());
  BreakMpirun(&job, "--host " + job.hosts().Address(1) + ":2");

  const control::Verdict verdict = RunTwoWorkers(&job);

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_EQ(verdict.reason, control::kReasonWorldMismatch) << verdict.message;
  EXPECT_THAT(verdict.message, HasSubstr("digits-worker-0"));
}

TEST_F(Refusal, AnAgentOfAnotherJobEnds) {
  Job job(2, FakeTraining());
  job.StartLauncher();
  job.StartAgent(0, "", {{control::kEnvJobUid, "another-job"}});

  // The name in the launcher's certificate contains the job's UID, so that the agent of another job
  // cannot complete the handshake.
  EXPECT_TRUE(WaitUntil(Seconds(20), [&] {
    return job.agent(0).Log().find("Waiting for the launcher to answer") != std::string::npos;
  })) << job.Log();
  EXPECT_EQ(job.launcher().Log().find("digits-worker-0"), std::string::npos);
}

TEST_F(Refusal, AnAgentWithAWrongTokenIsRefusedAndEnds) {
  Job job(2, FakeTraining());
  job.StartLauncher();
  std::filesystem::copy(job.Path("credentials"), job.Path("forged"));
  WriteFile(job.Path("forged/agent-token"), "guessed");

  job.StartAgent(0, "",
                 {{control::kEnvCredentialsDir, job.Path("forged")},
                  {control::kEnvItemHashes, job.WorkerItemHashes(job.Path("forged"))}});

  const auto outcome = job.agent(0).Wait(Seconds(20));
  ASSERT_TRUE(outcome.has_value()) << job.Log();
  EXPECT_NE(outcome->exit_code, 0);
  EXPECT_THAT(job.agent(0).Log(), HasSubstr("wrong token"));
}

TEST_F(Refusal, AReplacedSecretEndsTheAgentWithCredentialsMismatch) {
  Job job(2, FakeTraining());
  std::filesystem::copy(job.Path("credentials"), job.Path("planted"));
  WriteFile(job.Path("planted/ssh-user-key.pub"), "ssh-ed25519 AAAA planted");

  job.StartAgent(0, "", {{control::kEnvCredentialsDir, job.Path("planted")}});

  const auto outcome = job.agent(0).Wait(Seconds(20));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->exit_code, 1);
  EXPECT_THAT(job.agent(0).Log(), HasSubstr("CredentialsMismatch"));
  EXPECT_THAT(job.agent(0).Log(), HasSubstr("ssh-user-key.pub"));
  EXPECT_THAT(ReadFile(job.Path("verdict-digits-worker-0")), HasSubstr("CredentialsMismatch"));
}

TEST_F(Refusal, AnOrderWithoutTheOperatorsTokenIsRefused) {
  Job job(1, FakeTraining());
  job.StartLauncher();
  ASSERT_TRUE(WaitUntil(Seconds(20), [&] { return job.OrderWithToken("guessed") != 0; }));

  EXPECT_EQ(job.OrderWithToken("guessed"), 401);
  EXPECT_EQ(job.OrderWithToken("the-agents-token"), 401);
}

}  // namespace
}  // namespace ringmaster::runtime_test
