// Tests the real trainer when a rank hangs while its agent works. The rank must be found, and its
// stack recorded with the failure. The others must continue within a second after the limit, and
// the rank must be restarted. No step may be lost or repeated.

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "tests/fakes/patience.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using control::Epoch;
using control::LauncherPhase;
using control::LauncherStatus;
using control::RankExit;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 400;
constexpr Seconds kLimit{120};
constexpr milliseconds kStall{2000};

class StallJob : public LoggedTest {
 protected:
  // Starts three workers and waits until they train. minReplicas is 2.
  void Begin(Job& job) {
    job.launcher_extra = {{control::kEnvStallMillis, std::to_string(kStall.count())}};
    job.StartLauncher();
    for (const int worker : {0, 1, 2}) job.StartAgent(worker);
    job.SendOrder({0, 1, 2}, 2);
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return StepOf(job.Status()) >= 8; }))
        << job.Status().message;
  }
  static std::int64_t StepOf(const LauncherStatus& status) {
    return status.progress ? status.progress->step : 0;
  }

  // Waits until a newer world than `before` trains, and returns the launcher's status.
  static LauncherStatus AwaitNextWorld(Job& job, const Epoch& before) {
    LauncherStatus status;
    EXPECT_TRUE(WaitUntil(kLimit, [&] {
      status = job.Status();
      return status.last_recovery && status.last_recovery->epoch > before;
    })) << status.message;
    return status;
  }

  // Returns how long the rank made no progress before it was ended, according to the record.
  static milliseconds StoodStill(const RankExit& failure) {
    static constexpr std::string_view kText = " made no progress for ";
    const std::string reason = failure.last_lines.empty() ? "" : failure.last_lines.back();
    const std::size_t at = reason.find(kText);
    if (at == std::string::npos) return {};
    return milliseconds(std::atoi(reason.c_str() + at + kText.size()));
  }

  static pid_t RankOf(Job& job, int worker) {
    const std::vector<pid_t> ranks = Hosts::Find(job.agent(worker), "ringmaster-train");
    return ranks.empty() ? -1 : ranks.front();
  }

  // Returns the newest record of a rank that hung on this worker.
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

TEST_F(StallJob, ContinuesWithoutAStoppedRankWhichRejoins) {
  Job job(4, TrainerSpec(kSteps, "none"));
  ASSERT_NO_FATAL_FAILURE(Begin(job));
  const Epoch before = job.Status().epoch;
  const pid_t rank = RankOf(job, 1);

  const auto stopped = steady_clock::now();
  ASSERT_TRUE(SendSignal(rank, SIGSTOP));

  const LauncherStatus status = AwaitNextWorld(job, before);
  const auto seen = std::chrono::duration_cast<milliseconds>(steady_clock::now() - stopped);
  ASSERT_TRUE(status.last_recovery.has_value());
  EXPECT_EQ(status.last_recovery->cause, "Stalled");
  EXPECT_EQ(status.last_recovery->pod, "digits-worker-1");
  const RankExit failure = HungRank(status, 1);
  EXPECT_EQ(failure.signal, SIGKILL);
  EXPECT_THAT(failure.stack, HasSubstr(", stopped by a signal"));
  // Use the launcher's times, which do not include delays of our polling. Check the launcher's wait
  // and the recovery after the wait separately, because the launcher waits for max(10 x the median
  // step, kStall), which is longer on a busy machine.
  const milliseconds stood = StoodStill(failure);
  const milliseconds whole(status.last_recovery->detected_millis +
                           status.last_recovery->resumed_millis);
  std::printf("stood still for %lld ms, the next step after %lld ms, seen after %lld ms\n",
              static_cast<long long>(stood.count()), static_cast<long long>(whole.count()),
              static_cast<long long>(seen.count()));
  EXPECT_GE(stood, kStall);
  EXPECT_LE(stood, kStall * Patience() + milliseconds(500));
  EXPECT_LE(whole - stood, Seconds(1) * Patience());
  EXPECT_LE(seen, (kStall + Seconds(1)) * Patience());
  EXPECT_TRUE(WaitUntil(kLimit, [&] { return job.Status().world_size == 3; }))
      << job.Status().message;
  ExpectEndsWell(job);
}

// Makes the step log a pipe without a reader, so that rank 0 blocks in a write forever.
TEST_F(StallJob, ContinuesWithoutARankThatHangsInItsOwnCodeAndShowsWhere) {
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
    return job.launcher().Wait(milliseconds(0)).has_value();
  }));
  ExpectEndsWell(job);
  close(reader);
}

}  // namespace
}  // namespace ringmaster::runtime_test
