#include "operator/job/replacement_policy.h"

#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace ringmaster::job {
namespace {

const Clock::WallTime kNow = *ParseTime("2026-11-20T10:00:00Z");

std::vector<api::Failure> Failures(const std::vector<const char*>& times,
                                   const char* reason = "Error") {
  std::vector<api::Failure> failures;
  for (const char* time : times) failures.push_back({.reason = reason, .time = time});
  return failures;
}

TEST(ReplacementPolicy, FirstReplacementsAreImmediateThenDelayed) {
  struct Row {
    std::vector<const char*> times;
    std::chrono::milliseconds delay;
  };
  const Row table[] = {
      {{}, std::chrono::seconds(0)},
      {{"2026-11-20T10:00:00Z"}, std::chrono::seconds(0)},
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z"}, std::chrono::seconds(0)},
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:40Z"},
       std::chrono::seconds(1)},
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:40Z",
        "2026-11-20T09:59:30Z"},
       std::chrono::seconds(2)},
      // The delay runs from the newest failure.
      {{"2026-11-20T09:59:59Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:40Z"},
       std::chrono::seconds(0)},
      // One event that took many Pods along.
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:59Z", "2026-11-20T09:59:58Z",
        "2026-11-20T09:59:57Z"},
       std::chrono::seconds(0)},
      // Long ago.
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:00:00Z", "2026-11-20T08:00:00Z"},
       std::chrono::seconds(0)},
  };
  for (const Row& row : table) {
    EXPECT_EQ(ReplacementDelay(Failures(row.times), FailedRole::kWorker, kNow), row.delay);
  }
}

TEST(ReplacementPolicy, LaunchersAndWorkersAreCountedApart) {
  const auto failures =
      Failures({"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:40Z"},
               api::kReasonLauncherLost);

  EXPECT_EQ(ReplacementDelay(failures, FailedRole::kWorker, kNow), std::chrono::seconds(0));
  EXPECT_EQ(ReplacementDelay(failures, FailedRole::kLauncher, kNow), std::chrono::seconds(1));
}

TEST(ReplacementPolicy, FailureOfOnePodIsRecordedOnce) {
  std::vector<api::Failure> failures;

  EXPECT_TRUE(AddFailure(failures, {.pod_uid = "a", .reason = "Error"}));
  EXPECT_FALSE(AddFailure(failures, {.pod_uid = "a", .reason = "Error"}));

  EXPECT_EQ(failures.size(), 1u);
}

TEST(ReplacementPolicy, OnlyTheNewestFailuresAreKept) {
  std::vector<api::Failure> failures;

  for (int i = 0; i < 20; ++i)
    AddFailure(failures, {.pod_uid = std::to_string(i), .reason = "Error"});

  ASSERT_EQ(failures.size(), api::kMaxFailures);
  EXPECT_EQ(failures.front().pod_uid, "19");
}

}  // namespace
}  // namespace ringmaster::job
