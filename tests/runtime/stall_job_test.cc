// The real trainer while a rank of it hangs, though its agent lives: it is found, its stack stands
// in the record of failures, the others go on within the limit and a second, and it comes back. No
// step is lost or repeated.

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using control::Epoch;
using control::LauncherPhase;
using control::LauncherStatus;
using control::RankExit;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 400;
constexpr Seconds kLimit{120};
constexpr std::chrono::milliseconds kStall{2000};

class StallJob : public LoggedTest {
 protected:
  // Three workers, training; two are enough.
  void Begin(Job& job) {
    job.StartLauncher();
    for (const int worker : {0, 1, 2}) job.StartAgent(worker);
    job.SendOrder({0, 1, 2}, 2);
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return StepOf(job.Status()) >= 8; }))
        << job.Status().message;
  }
  static std::int64_t StepOf(const LauncherStatus& status) {
    return status.progress ? status.progress->step : 0;
  }

  // A world after `before` trains; says how long that took since `since`.
  std::chrono::milliseconds AwaitNextWorld(Job& job, const Epoch& before,
                                           steady_clock::time_point since) {
    EXPECT_TRUE(WaitUntil(kLimit, [&] {
      const LauncherStatus status = job.Status();
      return status.last_recovery && status.last_recovery->epoch > before;
    })) << job.Status().message;
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - since);
    std::printf("the next step after %lld ms\n", static_cast<long long>(took.count()));
    return took;
  }

  static pid_t RankOf(Job& job, int worker) {
    const std::vector<pid_t> ranks = Hosts::Find(job.agent(worker), "ringmaster-train");
    return ranks.empty() ? -1 : ranks.front();
  }

  // The newest record of a rank that hung, on this worker.
  static RankExit HungRank(const LauncherStatus& status, int worker) {
    for (auto failure = status.failures.rbegin(); failure != status.failures.rend(); ++failure) {
      if (failure->pod == "digits-worker-" + std::to_string(worker)) return *failure;
    }
    return {};
  }

  void ExpectEndsWell(Job& job) {
    const control::Verdict verdict = job.AwaitVerdict(Seconds(240));
    ASSERT_TRUE(verdict.succeeded) << verdict.message;
    ASSERT_TRUE(verdict.progress.has_value());
    EXPECT_EQ(verdict.progress->step, kSteps);
    const Ran audit = Audit(kSteps);
    std::printf("%s", audit.output.c_str());
    EXPECT_EQ(audit.exit_code, 0) << audit.output;
  }
};

TEST_F(StallJob, GoesOnWithoutAStoppedRankWhichComesBack) {
  Job job(4, TrainerSpec(kSteps, "none"));
  ASSERT_NO_FATAL_FAILURE(Begin(job));
  const Epoch before = job.Status().epoch;

  const auto stopped = steady_clock::now();
  ASSERT_EQ(kill(RankOf(job, 1), SIGSTOP), 0);

  EXPECT_LE(AwaitNextWorld(job, before, stopped), kStall + Seconds(1));
  const LauncherStatus status = job.Status();
  EXPECT_EQ(status.last_recovery->cause, "Stalled");
  EXPECT_EQ(status.last_recovery->pod, "digits-worker-1");
  const RankExit failure = HungRank(status, 1);
  EXPECT_EQ(failure.signal, SIGKILL);
  EXPECT_THAT(failure.stack, HasSubstr(", stopped by a signal"));
  ASSERT_FALSE(failure.last_lines.empty());
  EXPECT_THAT(failure.last_lines.back(), HasSubstr("stood still for"));
  EXPECT_TRUE(WaitUntil(kLimit, [&] { return job.Status().world_size == 3; }))
      << job.Status().message;
  ExpectEndsWell(job);
}

// The log of steps is a pipe that nobody reads: rank 0 waits in a write for ever.
TEST_F(StallJob, GoesOnWithoutARankThatHangsInItsOwnCodeAndShowsWhere) {
  const std::string pipe = logs_ + "/steps";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_GE(fcntl(reader, F_SETPIPE_SZ, 16384), 0);
  std::array<char, 65536> read_away{};
  const auto drain = [&] {
    while (read(reader, read_away.data(), read_away.size()) > 0) {
    }
  };

  Job job(4, TrainerSpec(kSteps, pipe));
  ASSERT_NO_FATAL_FAILURE(Begin(job));
  const Epoch before = job.Status().epoch;
  RankExit failure;
  ASSERT_TRUE(WaitUntil(kLimit, [&] {
    failure = HungRank(job.Status(), 0);
    return !failure.stack.empty();
  })) << job.Status().message;
  std::printf("%s", failure.stack.c_str());
  EXPECT_THAT(failure.stack, HasSubstr("StepLog::Write"));
  EXPECT_THAT(failure.last_lines.back(), HasSubstr("in phase 'update'"));
  EXPECT_EQ(failure.rank, 0);
  drain();  // the next rank 0 writes to the same pipe

  EXPECT_TRUE(WaitUntil(kLimit, [&] {
    drain();
    const LauncherStatus status = job.Status();
    return status.epoch > before && status.world_size == 3;
  })) << job.Status().message;
  EXPECT_TRUE(WaitUntil(kLimit, [&] {
    drain();
    return job.launcher().Wait(std::chrono::milliseconds(0)).has_value();
  }));
  ExpectEndsWell(job);
  close(reader);
}

}  // namespace
}  // namespace ringmaster::runtime_test
