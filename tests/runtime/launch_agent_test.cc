// Tests MPI programs on workers without sshd, where mpirun starts its daemons through the agents.

#include <csignal>
#include <filesystem>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/fakes/patience.h"
#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using testing::Contains;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class WithoutSshd : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }
  static void Begin(Job* job, const std::vector<int>& workers = {0, 1}) {
    job->HideSshd();
    job->StartLauncher();
    for (const int worker : workers) job->StartAgent(worker);
    job->SendOrder(workers);
  }
};

TEST_F(WithoutSshd, AnMpiProgramReducesAcrossHosts) {
  control::LaunchSpec spec;
  spec.command = {MpiSumProgram()};
  spec.slots_per_worker = 2;
  Job job(3, spec);
  job.worker_extra = {{"MPI_SUM_WISH", "a value with spaces"}};
  job.working_dir = "/var/lib";
  Begin(&job);

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 4);
  const std::string log = job.launcher().Log();
  EXPECT_THAT(log, HasSubstr("plm_rsh_agent"));
  EXPECT_THAT(log, HasSubstr("rank 0 of 4 on digits-worker-0: sum 10, wish a value with spaces"));
  EXPECT_THAT(log, HasSubstr("rank 3 of 4 on digits-worker-1: sum 10, wish a value with spaces"));
}

// Workers whose image has sshd, which rejects users that are not in the image's /etc/passwd.
class WithoutAName : public WithoutSshd {};

TEST_F(WithoutAName, AnMpiProgramReducesAcrossHosts) {
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "getent passwd $(id -u) || echo user $(id -u) without a name, at home in $HOME; "
                  "exec " +
                      MpiSumProgram()};
  spec.slots_per_worker = 2;
  Job job(3, spec);
  job.worker_user = 54321;
  job.StartLauncher();
  for (const int worker : {0, 1}) job.StartAgent(worker);
  job.SendOrder({0, 1});

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 4);
  const std::string log = job.launcher().Log();
  EXPECT_THAT(log, ContainsRegex("node-of-digits-worker-[01]. cannot be reached over ssh"));
  EXPECT_THAT(log, HasSubstr("user 54321 without a name, at home in /tmp"));
  EXPECT_THAT(log, HasSubstr("rank 3 of 4 on digits-worker-1: sum 10"));
}

TEST_F(WithoutSshd, WorkersMayShareTheirNodesNetwork) {
  control::LaunchSpec spec;
  spec.command = {MpiSumProgram()};
  Job job(3, spec);
  job.host_network = {{0, 1}, {1, 1}, {2, 2}};
  Begin(&job, {0, 1, 2});

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 3);
  EXPECT_THAT(job.launcher().Log(), HasSubstr("rank 1 of 3 on node-1: sum 6"));
}

TEST_F(WithoutSshd, TheExitCodeOfTheRankThatFailsArrives) {
  control::LaunchSpec spec;
  spec.command = {MpiSumProgram(), "1"};
  Job job(3, spec);
  job.launcher_extra = {{control::kEnvRestartLimit, "0"}};
  Begin(&job);

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_EQ(verdict.reason, control::kReasonRankFailed) << verdict.message;
  ASSERT_TRUE(verdict.first_failure.has_value());
  EXPECT_EQ(verdict.first_failure->rank, 1);
  EXPECT_EQ(verdict.first_failure->exit_code, 3);
  EXPECT_THAT(verdict.first_failure->last_lines, Contains("rank 1 gives up"));
}

TEST_F(WithoutSshd, AKilledRankRestartsTheProgram) {
  // The folders are in /var/tmp, which all hosts share.
  const std::string ran = "/var/tmp/ringmaster-test-ran-" + std::to_string(::getpid()) + "-";
  control::LaunchSpec spec;
  spec.command = {"sh", "-c", "mkdir " + ran + "$RANK && exec sleep 600; exit 0"};
  Job job(3, spec);
  Begin(&job);
  std::vector<pid_t> ranks;
  ASSERT_TRUE(WaitUntil(Seconds(60), [&] {
    ranks = Hosts::Find(job.agent(1), "sleep");
    return !ranks.empty() && std::filesystem::exists(ran + "0");
  })) << job.Log();
  const control::LauncherStatus status = job.Status();
  EXPECT_EQ(status.started_by, control::kByMpirun);
  EXPECT_EQ(status.launch_agent, control::kLaunchByAgent);
  EXPECT_THAT(Hosts::Find(job.agent(1), "orted"), SizeIs(1));
  EXPECT_THAT(Hosts::Find(job.agent(1), "sshd"), IsEmpty());

  kill(ranks.front(), SIGKILL);
  const control::Verdict verdict = job.AwaitVerdict();
  for (const char* const rank : {"0", "1"}) ASSERT_EQ(::rmdir((ran + rank).c_str()), 0);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.epoch.number, 2);
  EXPECT_EQ(verdict.clean_exits, 2);
}

// A daemon that does not detach itself runs for as long as its remote shell.
TEST_F(WithoutSshd, AnAgentThatVanishesEndsItsRemoteShellAndThoseEndTheirDaemons) {
  control::LaunchSpec spec;
  spec.command = {"sleep", "600"};
  spec.mpi_extra_args = {"--leave-session-attached"};
  Job job(3, spec);
  Begin(&job);
  ASSERT_TRUE(job.WaitForPhase(control::LauncherPhase::kRunning)) << job.Log();
  EXPECT_THAT(Hosts::Find(job.launcher(), "ringmaster-rsh"), SizeIs(2));

  Hosts::Signal(job.agent(1), SIGKILL);

  EXPECT_TRUE(WaitUntil(Seconds(30), [&] {
    return job.launcher().Log().find("lost the connection to the agent of that worker") !=
           std::string::npos;
  })) << job.Log();
  EXPECT_TRUE(WaitUntil(Seconds(30), [&] {
    return Hosts::Find(job.launcher(), "ringmaster-rsh").empty() &&
           Hosts::Find(job.agent(0), "orted").empty();
  })) << job.Log();
}

// Only mpirun can apply spec.mpi, so the job fails without mpirun.
TEST_F(WithoutSshd, AJobThatSetsSpecMpiFailsWhereTheLaunchersImageHasNoMpirun) {
  control::LaunchSpec spec;
  spec.command = {"true"};
  spec.mpi_pass_env = {"LANG"};
  Job job(1, spec);
  job.launcher_extra["PATH"] = "/nonexistent";
  job.StartLauncher();

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_EQ(verdict.reason, control::kReasonMpirunFailed);
  EXPECT_EQ(verdict.message,
            "spec.mpi is set, but the launcher's image has no mpirun; use an image with Open MPI 4 "
            "or 5, or remove spec.mpi");
}

// A job may require that mpirun starts daemons over SSH.
TEST_F(WithoutSshd, AProgramThatWantsMpirunIsRefusedWhereTheJobWantsSsh) {
  control::LaunchSpec spec;
  spec.command = {"true"};
  spec.launch_agent = control::LaunchAgent::kSsh;
  Job job(2, spec);
  Begin(&job, {0});

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed) << verdict.message;
  EXPECT_THAT(verdict.message, HasSubstr("the image has no sshd"));
}

}  // namespace
}  // namespace ringmaster::runtime_test
