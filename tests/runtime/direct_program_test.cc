// Tests the programs of direct jobs, which are started by mpirun or by the agents.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/fakes/patience.h"
#include "tests/paths.h"
#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

class DirectProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  virtual void Begin(Job* job) {
    job->StartLauncher();
    job->StartAgent(0);
    job->StartAgent(1);
    job->SendOrder({0, 1});
  }

  control::Verdict Run(Job* job) {
    Begin(job);
    return job->AwaitVerdict();
  }
};

// A program that leaves a process in another session and is killed. When it is started again, it
// fails if that process still runs.
control::LaunchSpec LeavesASession(const std::string& folder) {
  const std::string left = folder + "/left-$RANK";
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "[ -f " + left + " ] && { kill -0 $(cat " + left + ") && exit 3; exit 0; }; " +
                      "setsid sh -c 'echo $$ > " + left + "; exec sleep 600' & " + "until [ -s " +
                      left + " ]; do sleep 0.1; done; kill -9 $$"};
  return spec;
}

TEST_F(DirectProgram, AnMpiProgramReducesAcrossHosts) {
  control::LaunchSpec spec;
  spec.command = {MpiSumProgram()};
  spec.slots_per_worker = 2;
  Job job(3, spec);
  job.worker_extra = {{"MPI_SUM_WISH", "a value with spaces"}};

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 4);
  const std::string log = job.launcher().Log();
  EXPECT_THAT(log, HasSubstr("rank 0 of 4 on digits-worker-0: sum 10, wish a value with spaces"));
  EXPECT_THAT(log, HasSubstr("rank 3 of 4 on digits-worker-1: sum 10, wish a value with spaces"));
  EXPECT_THAT(job.agent(0).Log(), HasSubstr("rank 0 of 4 on digits-worker-0: sum 10"));
  EXPECT_THAT(job.agent(1).Log(), HasSubstr("rank 3 of 4 on digits-worker-1: sum 10"));
}

TEST_F(DirectProgram, AnMpiProgramReducesOnWorkersThatShareTheirNodesNetwork) {
  control::LaunchSpec spec;
  spec.command = {MpiSumProgram()};
  spec.slots_per_worker = 2;
  Job job(3, spec);
  job.host_network = {{0, 1}, {1, 1}, {2, 2}};
  job.StartLauncher();
  for (const int worker : {0, 1, 2}) job.StartAgent(worker);
  job.SendOrder({0, 1, 2});

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 6);
  const std::string log = job.launcher().Log();
  EXPECT_THAT(log, HasSubstr("rank 1 of 6 on node-1: sum 21"));
  EXPECT_THAT(log, HasSubstr("rank 5 of 6 on node-2: sum 21"));
}

// A program blocks while it prints faster than its worker's log is written, so no line is lost.
TEST_F(DirectProgram, MayPrintALot) {
  constexpr int kLines = 200'000;
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "seq -f '%.0f of many lines that nobody reads' " + std::to_string(kLines)};
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  for (const int worker : {0, 1}) {
    const std::string log = job.agent(worker).Log();
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = log.find("of many lines", at)) != std::string::npos; ++at) {
      ++lines;
    }
    EXPECT_EQ(lines, kLines) << "of worker " << worker;
  }
}

TEST_F(DirectProgram, NamesTheRankThatFails) {
  control::LaunchSpec spec;
  spec.command = {MpiSumProgram(), "1"};
  Job job(3, spec);
  job.launcher_extra = {{control::kEnvRestartLimit, "0"}};

  const control::Verdict verdict = Run(&job);

  EXPECT_EQ(verdict.reason, control::kReasonRankFailed) << verdict.message;
  ASSERT_TRUE(verdict.first_failure.has_value());
  EXPECT_EQ(verdict.first_failure->rank, 1);
  EXPECT_EQ(verdict.first_failure->exit_code, 3);
  EXPECT_EQ(verdict.first_failure->pod, "digits-worker-1");
  EXPECT_THAT(verdict.first_failure->last_lines, Contains("rank 1 gives up"));
}

TEST_F(DirectProgram, WhatItLeavesInASessionOfItsOwnEndsWithIt) {
  const std::string folder = "/var/tmp/ringmaster-test-left-" + std::to_string(::getpid());
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  Job job(3, LeavesASession(folder));

  const control::Verdict verdict = Run(&job);
  std::filesystem::remove_all(folder);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
}

// The out-of-memory killer may choose attach, and mpirun kills an attach whose program is slow to
// end. The kernel then kills the shell, but not the process that the shell started.
TEST_F(DirectProgram, WhatItStartedEndsWithItsAttachIfThatIsKilled) {
  const std::string folder = "/var/tmp/ringmaster-test-attach-" + std::to_string(::getpid());
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string left = folder + "/left-$RANK";
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "[ -f " + left + " ] && { kill -0 $(cat " + left +
                      ") && exit 3; exit 0; }; sleep 600 & echo $! > " + left +
                      "; kill -9 $PPID; wait"};
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);
  std::filesystem::remove_all(folder);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
}

TEST_F(DirectProgram, IsRestartedAfterARanksError) {
  // The folder is in /var/tmp, which all hosts share; each has a separate /tmp and /dev/shm.
  const std::string failed = "/var/tmp/ringmaster-test-failed-" + std::to_string(::getpid());
  control::LaunchSpec spec;
  spec.command = {"sh", "-c", "mkdir " + failed + " || exit 0; echo a timeout; exit 1"};
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);
  ASSERT_EQ(::rmdir(failed.c_str()), 0);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 2);
  EXPECT_THAT(job.launcher().Log(), HasSubstr("a timeout"));
}

TEST_F(DirectProgram, IsRestartedIfItHangsButNotWhileItsHeartbeatContinues) {
  const std::string hung = "/var/tmp/ringmaster-test-hung-" + std::to_string(::getpid());
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "mkdir " + hung + " 2>/dev/null && sleep 600; for i in $(seq " +
                      std::to_string(3 * Patience()) +
                      "); do touch $RINGMASTER_HEARTBEAT; sleep 1; done"};
  Job job(3, spec);
  job.launcher_extra = {{control::kEnvStallMillis, std::to_string(2000 * Patience())}};

  const control::Verdict verdict = Run(&job);
  ASSERT_EQ(::rmdir(hung.c_str()), 0);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.epoch.number, 2) << job.Log();
}

TEST_F(DirectProgram, IsRestartedWithAReplacementAndReportsWhyAndHowLongItHadRun) {
  control::LaunchSpec spec;
  spec.command = {"sleep", "600"};
  Job job(3, spec);
  Begin(&job);
  ASSERT_TRUE(job.WaitForPhase(control::LauncherPhase::kRunning)) << job.Log();

  Hosts::Signal(job.agent(1), SIGKILL);
  job.agent(1).Wait(Seconds(10));
  job.StartAgent(1, "uid-1-2");
  job.SendOrder({0, 1}, 0, {"uid-1-1"});

  control::LauncherStatus status;
  ASSERT_TRUE(WaitUntil(Seconds(60), [&] {
    status = job.Status();
    return status.last_recovery.has_value();
  })) << job.Log();
  EXPECT_TRUE(status.last_recovery->from_start);
  EXPECT_EQ(status.last_recovery->pod, "digits-worker-1");
  EXPECT_EQ(status.last_recovery->node, "node-of-digits-worker-1");
  EXPECT_GT(status.last_recovery->ran_millis, 0);
  EXPECT_GT(status.last_recovery->resumed_millis, 0);
}

TEST_F(DirectProgram, RunsInTheWorkingDirectoryOfTheContainer) {
  control::LaunchSpec spec;
  spec.command = {"sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK in $(/bin/pwd), told $PWD"};
  Job job(3, spec);
  job.working_dir = "/var/lib";

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  const std::string log = job.launcher().Log();
  EXPECT_THAT(log, HasSubstr("rank 0 in /var/lib, told /var/lib"));
  EXPECT_THAT(log, HasSubstr("rank 1 in /var/lib, told /var/lib"));
}

TEST_F(DirectProgram, RunsWhereTheUsersOwnArgumentsForMpirunSay) {
  control::LaunchSpec spec;
  spec.command = {"sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK in $(/bin/pwd)"};
  spec.mpi_extra_args = {"--wdir", "/usr/lib"};
  Job job(3, spec);
  job.working_dir = "/var/lib";

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_THAT(job.launcher().Log(), HasSubstr("rank 1 in /usr/lib"));
}

TEST_F(DirectProgram, LearnsWhoItIsAndWhereToMeetAsPyTorchReadsIt) {
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, meets at "
                  "$MASTER_ADDR:$MASTER_PORT"};
  spec.slots_per_worker = 2;
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  const std::string meets = "meets at " + job.hosts().Address(1) + ":2";
  EXPECT_THAT(job.launcher().Log(), HasSubstr("0 of 4, 0 of 2, " + meets));
  EXPECT_THAT(job.launcher().Log(), HasSubstr("3 of 4, 1 of 2, " + meets));
}

TEST_F(DirectProgram, AProgramThatIsNoMpiProgramRunsTooUntilItHasCrashedTooOften) {
  control::LaunchSpec spec;
  // One rank dies at each start. Output of the other ranks may be missing from mpirun's output.
  spec.command = {"sh", "-c",
                  "echo slot $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE; "
                  "[ $OMPI_COMM_WORLD_RANK = 0 ] || exec sleep 300; kill -SEGV $$"};
  Job job(3, spec);
  job.launcher_extra = {{control::kEnvCrashLimit, "2"}};

  const control::Verdict verdict = Run(&job);

  EXPECT_EQ(verdict.reason, control::kReasonCrashLoop) << verdict.message;
  ASSERT_TRUE(verdict.first_failure.has_value());
  EXPECT_EQ(verdict.first_failure->signal, SIGSEGV);
  EXPECT_THAT(job.launcher().Log(), HasSubstr("slot 0 of 2"));
}

// Tests an image that has a shell, but neither mpirun nor sshd.
class ForeignImage : public DirectProgram {
 protected:
  void SetUp() override {
    DirectProgram::SetUp();
    bin_ = "/var/tmp/ringmaster-test-bin-" + std::to_string(::getpid());
    std::filesystem::create_directory(bin_);
    for (const char* program : {"sh", "sleep", "mkdir", "rmdir", "setsid", "cat"}) {
      std::filesystem::create_symlink(std::string("/usr/bin/") + program, bin_ + '/' + program);
    }
  }
  void TearDown() override {
    if (!bin_.empty()) std::filesystem::remove_all(bin_);
  }

  void Begin(Job* job) override {
    job->launcher_extra["PATH"] = bin_;
    job->worker_extra["PATH"] = bin_;
    DirectProgram::Begin(job);
  }

  std::string bin_;
};

TEST_F(ForeignImage, AgentsStartTheProgramInEachSlot) {
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "echo rank $RANK of $WORLD_SIZE, slot $LOCAL_RANK of $LOCAL_WORLD_SIZE, node "
                  "$NODE_RANK of $NNODES, meets at $MASTER_ADDR:$MASTER_PORT, umask $(umask)"};
  spec.slots_per_worker = 2;
  Job job(3, spec);

  const mode_t ours = ::umask(026);
  const control::Verdict verdict = Run(&job);
  ::umask(ours);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 4);
  const std::string meets = "meets at " + job.hosts().Address(1) + ":2";
  EXPECT_THAT(job.agent(0).Log(), HasSubstr("rank 0 of 4, slot 0 of 2, node 0 of 2, " + meets));
  EXPECT_THAT(job.agent(1).Log(), HasSubstr("rank 3 of 4, slot 1 of 2, node 1 of 2, " + meets));
  EXPECT_THAT(job.agent(1).Log(), HasSubstr("umask 0026")) << "the agent's own is narrower";
  EXPECT_THAT(job.launcher().Log(), HasSubstr("rank 0 of 4"));
  EXPECT_THAT(job.launcher().Log(), testing::Not(HasSubstr("rank 3 of 4")));
}

// Tests a program that prints more than the queues can hold, faster than its output is read.
TEST_F(ForeignImage, AFloodOfOutputInOneLineDoesNoHarm) {
  control::LaunchSpec spec;
  spec.command = {
      "sh", "-c",
      "/usr/bin/head -c 16777216 /dev/zero | /usr/bin/tr '\\000' x; echo; echo the end"};
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  for (const int agent : {0, 1}) {
    const std::string log = job.agent(agent).Log();
    EXPECT_THAT(log.substr(log.size() - std::min<std::size_t>(log.size(), 4096)),
                HasSubstr("the end"));
    EXPECT_GT(log.size(), 16U << 20) << "a worker's log has all of it";
  }
  EXPECT_THAT(job.launcher().Log(), HasSubstr("the end"));
}

TEST_F(ForeignImage, ARanksErrorEndsAllAlsoThoseThatIgnoreSigterm) {
  const std::string failed = bin_ + "/failed";
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "trap '' TERM; [ -d " + failed +
                      " ] && exit 0; [ $RANK = 1 ] || sleep 600; mkdir " + failed +
                      "; echo a timeout; exit 1"};
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.epoch.number, 2);
  EXPECT_THAT(job.agent(1).Log(), HasSubstr("a timeout"));
}

TEST_F(ForeignImage, AProgramHasTheJobsGracePeriodToEnd) {
  const std::string failed = bin_ + "/failed";
  const std::string saved = bin_ + "/saved";
  const std::string ready = bin_ + "/ready";
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "trap 'sleep 2; mkdir " + saved + "; exit 0' TERM; [ -d " + failed +
                      " ] && exit 0; [ $RANK = 1 ] || { mkdir " + ready +
                      "; while :; do sleep 1; done; }; until [ -d " + ready +
                      " ]; do sleep 0.1; done; mkdir " + failed + "; exit 1"};
  Job job(3, spec);
  job.launcher_extra[control::kEnvStopGraceSeconds] = "60";

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_TRUE(std::filesystem::exists(saved)) << "SIGKILL came first";
}

// The new program must not start on any worker before the old one has ended.
TEST_F(ForeignImage, ANewLaunchersProgramWaitsForTheEndOfTheLastOnes) {
  const std::string slow = bin_ + "/slow";
  const std::string began = bin_ + "/began-";
  const std::string beside = bin_ + "/beside";
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "mkdir " + began + "$RANK || { [ -d " + slow + " ] && mkdir " + beside +
                      "; exit 0; }; [ $RANK = 1 ] || { trap 'sleep 3; rmdir " + slow +
                      "; exit 0' TERM; mkdir " + slow + "; }; while :; do sleep 0.1; done"};
  Job job(3, spec);
  job.launcher_extra[control::kEnvStopGraceSeconds] = "60";
  Begin(&job);
  for (const std::string& folder : {slow, began + "1"}) {
    ASSERT_TRUE(WaitUntil(Seconds(60), [&] { return std::filesystem::exists(folder); }));
  }

  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());
  job.StartLauncher(2);
  job.SendOrder({0, 1});
  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_FALSE(std::filesystem::exists(beside));
}

TEST_F(ForeignImage, AProgramThatCompletesWithoutALauncherDoesNotRunAgain) {
  const std::string began = bin_ + "/began-";
  const std::string go_on = bin_ + "/go-on";
  const std::string ended = bin_ + "/ended-";
  control::LaunchSpec spec;
  spec.command = {"sh", "-c",
                  "mkdir " + began + "$RANK || exit 2; until [ -d " + go_on +
                      " ]; do sleep 0.1; done; mkdir " + ended + "$RANK"};
  Job job(3, spec);
  Begin(&job);
  const auto both_exist = [](const std::string& prefix) {
    return std::filesystem::exists(prefix + "0") && std::filesystem::exists(prefix + "1");
  };
  ASSERT_TRUE(WaitUntil(Seconds(60), [&] { return both_exist(began); }));

  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());
  std::filesystem::create_directory(go_on);
  ASSERT_TRUE(WaitUntil(Seconds(20), [&] { return both_exist(ended); }));
  job.StartLauncher(2);
  job.SendOrder({0, 1});
  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 2);
}

// A program on a disconnected worker must not run in parallel with its replacement.
TEST_F(ForeignImage, AProgramWhoseLauncherIsSilentForHalfAMinuteIsEnded) {
  const std::string began = bin_ + "/began";
  const std::string ended = bin_ + "/ended";
  control::LaunchSpec spec;
  spec.command = {
      "sh", "-c",
      "trap 'mkdir " + ended + "; exit 0' TERM; mkdir " + began + "; while :; do sleep 0.1; done"};
  Job job(2, spec);
  job.launcher_extra["PATH"] = bin_;
  job.worker_extra["PATH"] = bin_;
  job.StartLauncher();
  job.StartAgent(0);
  job.SendOrder({0});
  ASSERT_TRUE(WaitUntil(Seconds(60), [&] { return std::filesystem::exists(began); }));

  Hosts::Signal(job.launcher(), SIGSTOP);

  EXPECT_TRUE(WaitUntil(Seconds(60), [&] { return std::filesystem::exists(ended); }));
}

TEST_F(ForeignImage, AnotherMpirunThanOpenMpisIsLeftAlone) {
  std::ofstream(bin_ + "/mpirun") << "#!/bin/sh\necho 'HYDRA build details:'\n";
  std::filesystem::permissions(bin_ + "/mpirun", std::filesystem::perms::owner_all);
  control::LaunchSpec spec;
  spec.command = {"sh", "-c", "echo rank $RANK of $WORLD_SIZE"};
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_THAT(job.launcher().Log(),
              testing::AllOf(HasSubstr("HYDRA build details"), HasSubstr("rank 0 of 2")));
}

// Children in another session, such as the ranks of torchrun, survive when their parent is killed.
TEST_F(ForeignImage, WhatAProgramLeavesInASessionOfItsOwnEndsWithIt) {
  Job job(3, LeavesASession(bin_));

  const control::Verdict verdict = Run(&job);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
}

TEST_F(ForeignImage, AProgramThatIsNotThereFailsTheJob) {
  control::LaunchSpec spec;
  spec.command = {"no-such-program"};
  Job job(3, spec);

  const control::Verdict verdict = Run(&job);

  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed) << verdict.message;
  EXPECT_THAT(verdict.message, HasSubstr("no-such-program"));
  EXPECT_THAT(verdict.message, testing::Not(HasSubstr("sshd")));
}

TEST_F(ForeignImage, AProgramWhoseLibraryIsMissingFailsTheJobBeforeItStarts) {
  control::LaunchSpec spec;
  spec.command = {FromBuild(MISSING_LIBRARY)};
  Job job(2, spec);

  const control::Verdict verdict = Run(&job);

  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed) << verdict.message;
  EXPECT_THAT(verdict.message, HasSubstr("'libraries'"));
  EXPECT_THAT(verdict.message, HasSubstr("not found here: libringmaster_missing.so; "));
}

}  // namespace
}  // namespace ringmaster::runtime_test
