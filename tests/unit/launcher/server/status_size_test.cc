// Tests that the status never exceeds the size that the operator reads, for jobs of any size.

#include "worker/launcher/server/status_size.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

control::LauncherStatus StatusOf(int workers) {
  control::LauncherStatus status;
  for (int i = 0; i < workers; ++i) {
    control::WorkerReport& report = status.workers.emplace_back();
    report.pod_uid = "00000000-0000-4000-8000-" + std::to_string(100'000'000'000 + i);
    report.ready = report.member = true;
  }
  return status;
}

TEST(EncodeWithin, ReportsEverythingOfAnOrdinaryJob) {
  const control::LauncherStatus status = StatusOf(300);

  EXPECT_EQ(EncodeWithin(status), control::EncodeLauncherStatus(status));
}

TEST(EncodeWithin, ReportsEverythingOfAThousandOrderedWorkers) {
  control::LauncherStatus status = StatusOf(1000);
  status.ordered = 1000;

  EXPECT_EQ(EncodeWithin(status), control::EncodeLauncherStatus(status));
}

TEST(EncodeWithin, KeepsWhatIsNewsOfAThousandWorkersThatWereOrderedBefore) {
  control::LauncherStatus status = StatusOf(1000);
  status.workers[777].fenced = true;
  status.workers[998].drained = true;
  status.workers[999].faults = {{"sshd", "no sshd"}};

  const std::string text = EncodeWithin(status);

  ASSERT_LE(text.size(), control::MaxStatusBytes(0));
  const auto decoded = control::DecodeLauncherStatus(text);
  ASSERT_TRUE(decoded.ok());
  for (const int worker : {777, 998, 999}) {
    const auto& uid = status.workers[static_cast<std::size_t>(worker)].pod_uid;
    EXPECT_TRUE(std::any_of(decoded->workers.begin(), decoded->workers.end(),
                            [&](const auto& report) { return report.pod_uid == uid; }));
  }
}

TEST(EncodeWithin, DropsTheOldestFailuresFirst) {
  control::LauncherStatus status;
  for (int i = 0; i < 16; ++i) {
    control::RankExit& exit = status.failures.emplace_back();
    exit.rank = i;
    exit.last_lines = {std::string(300, '\x01'), std::string(300, '\x01'),
                       std::string(300, '\x01')};
  }

  const auto decoded = control::DecodeLauncherStatus(EncodeWithin(status));

  ASSERT_TRUE(decoded.ok());
  ASSERT_FALSE(decoded->failures.empty());
  EXPECT_LT(decoded->failures.size(), 16U);
  EXPECT_EQ(decoded->failures.back().rank, 15);
}

}  // namespace
}  // namespace ringmaster::launcher
