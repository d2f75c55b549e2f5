#include "operator/job/policy/replacement_policy.h"

#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/reasons.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/policy/crash_policy.h"
#include "operator/job/policy/verdict_policy.h"

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
      // One event that ended many Pods counts as one failure.
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:59Z", "2026-11-20T09:59:58Z",
        "2026-11-20T09:59:57Z"},
       std::chrono::seconds(0)},
      // Failures within five seconds belong to the same event; later ones do not.
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:45Z"},
       std::chrono::seconds(0)},
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:44Z"},
       std::chrono::seconds(1)},
      // Failures count for less than ten minutes. The oldest is ten minutes old, or a second less.
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:50:00Z"},
       std::chrono::seconds(0)},
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:50:01Z"},
       std::chrono::seconds(1)},
      // Old failures do not count.
      {{"2026-11-20T10:00:00Z", "2026-11-20T09:00:00Z", "2026-11-20T08:00:00Z"},
       std::chrono::seconds(0)},
  };
  for (const Row& row : table) {
    EXPECT_EQ(ReplacementDelay(Failures(row.times), FailedRole::kWorker, kNow), row.delay);
  }
}

TEST(ReplacementPolicy, WhatTheClusterDidDelaysNothing) {
  const std::vector<const char*> often{"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z",
                                       "2026-11-20T09:59:40Z", "2026-11-20T09:59:30Z"};
  for (const char* reason :
       {"Evicted", "Preempting", "NodeShutdown", "NodeLost", "NodeNotReady", "ProgramRestarted"}) {
    EXPECT_EQ(ReplacementDelay(Failures(often, reason), FailedRole::kWorker, kNow),
              std::chrono::seconds(0));
  }
  EXPECT_GT(ReplacementDelay(Failures(often, "OOMKilled"), FailedRole::kWorker, kNow),
            std::chrono::seconds(0));
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
  EXPECT_TRUE(AddFailure(failures, {.pod_uid = "a", .reason = "NodeLost"})) << "that is another";

  EXPECT_EQ(failures.size(), 2u);
}

control::RankExit Exit(const std::string& start) {
  control::RankExit exit;
  exit.rank = 1;
  exit.pod_uid = "p";
  exit.start = start;
  exit.signal = 9;
  return exit;
}

TEST(ReplacementPolicy, EveryEndOfARankIsRecordedOnce) {
  std::vector<api::Failure> failures;
  std::vector<control::RankExit> exits{Exit("a")};

  EXPECT_EQ(AddRankFailures(exits, "2026-11-20T10:00:00Z", failures), 1U);
  exits.push_back(Exit("b"));
  EXPECT_EQ(AddRankFailures(exits, "2026-11-20T10:00:01Z", failures), 1U);
  EXPECT_EQ(AddRankFailures(exits, "2026-11-20T10:00:02Z", failures), 0U);

  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].start, "b");
  EXPECT_EQ(failures[0].signal, 9);
  EXPECT_EQ(failures[0].time, "2026-11-20T10:00:01Z");
}

TEST(ReplacementPolicy, TheReasonOfARankFollowsFromItsExitCode) {
  struct Row {
    const char* start;
    int exit_code;
    int signal;
    const char* reason;
  };
  for (const auto& [start, exit_code, signal, reason] :
       {Row{"a", control::kExitUserError, 0, control::kReasonUserError},
        Row{"a", 1, 0, control::kReasonRankFailed}, Row{"a", -1, 9, control::kReasonRankFailed},
        Row{"", control::kExitUserError, 0, control::kReasonRankFailed}}) {
    control::RankExit exit = Exit(start);
    exit.exit_code = exit_code;
    exit.signal = signal;
    std::vector<api::Failure> failures;

    AddRankFailures({exit}, "2026-11-20T10:00:00Z", failures);

    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].reason, reason) << exit_code;
    EXPECT_EQ(failures[0].rank, 1);
  }
}

// The agent reports the GPU's failure for the Pod, or the launcher reports it for the rank.
TEST(ReplacementPolicy, AnUnhealthyGpuIsNamedAndItsNodeAvoided) {
  PodView pod;
  pod.uid = "p";
  pod.name = "digits-worker-1";
  pod.role = Role::kWorker;
  pod.node = "node2";
  pod.container.terminated = true;
  pod.container.exit_code = control::kExitDeviceUnhealthy;
  pod.container.ended_reason = "Error";
  pod.container.ended_message = "GPU-7 of slot 2: the driver reported Xid 79";
  control::RankExit of_rank = Exit("a");
  of_rank.signal = 0;
  of_rank.exit_code = control::kExitDeviceUnhealthy;
  of_rank.node = "node1";
  std::vector<api::Failure> failures;

  AddFailure(failures, FailureOf(pod, "2026-11-20T10:00:00Z"));
  AddRankFailures({of_rank}, "2026-11-20T10:00:00Z", failures);
  AddFailure(failures, {.pod_uid = "q", .node = "node3", .reason = "Error"});

  ASSERT_EQ(failures.size(), 3U);
  EXPECT_EQ(failures[1].reason, api::kReasonDeviceUnhealthy);
  EXPECT_EQ(failures[2].reason, api::kReasonDeviceUnhealthy);
  EXPECT_EQ(FailureText(failures[2]),
            "digits-worker-1 on node node2 has an unhealthy GPU: GPU-7 of slot 2: the driver "
            "reported Xid 79");
  EXPECT_EQ(NodesWithUnhealthyGpus(failures), (std::vector<std::string>{"node1", "node2"}));
}

TEST(ReplacementPolicy, RanksThatEndDoNotMakeTheDelayOfPodsForgotten) {
  std::vector<api::Failure> failures;
  for (const char* time :
       {"2026-11-20T09:59:40Z", "2026-11-20T09:59:50Z", "2026-11-20T10:00:00Z"}) {
    AddFailure(failures, {.pod_uid = time, .reason = "Error", .time = time});
  }
  std::vector<control::RankExit> exits;

  for (int i = 0; i < 40; ++i) {
    exits.push_back(Exit(std::to_string(i)));
    AddRankFailures(exits, "2026-11-20T10:00:00Z", failures);
  }

  EXPECT_EQ(failures.size(), api::kMaxFailures);
  EXPECT_EQ(failures.front().start, "39");
  EXPECT_EQ(ReplacementDelay(failures, FailedRole::kWorker, kNow), std::chrono::seconds(1));
}

TEST(ReplacementPolicy, ManyPodsThatEndTogetherDoNotMakeEarlierEndsForgotten) {
  std::vector<api::Failure> failures;
  AddFailure(failures,
             {.pod_uid = "l", .reason = api::kReasonLauncherLost, .time = "2026-11-20T09:59:20Z"});
  for (const char* time :
       {"2026-11-20T09:59:30Z", "2026-11-20T09:59:40Z", "2026-11-20T09:59:50Z"}) {
    for (int pod = 0; pod < 50; ++pod) {
      AddFailure(failures,
                 {.pod_uid = time + std::to_string(pod), .reason = "Error", .time = time});
    }
  }

  EXPECT_EQ(failures.size(), api::kMaxFailures);
  EXPECT_EQ(failures.back().pod_uid, "l");
  EXPECT_GT(ReplacementDelay(failures, FailedRole::kWorker, *ParseTime("2026-11-20T09:59:50Z")),
            std::chrono::seconds(0));
}

TEST(ReplacementPolicy, ManyPodsThatEndDoNotBringKnownEndsOfRanksBack) {
  std::vector<api::Failure> failures;
  const std::vector<control::RankExit> exits{Exit("a"), Exit("b")};
  AddRankFailures(exits, "2026-11-20T09:00:00Z", failures);
  for (int minute = 10; minute < 50; ++minute) {
    const std::string time = "2026-11-20T09:" + std::to_string(minute) + ":00Z";
    AddFailure(failures, {.pod_uid = time, .reason = "Error", .time = time});
  }

  EXPECT_EQ(AddRankFailures(exits, "2026-11-20T10:00:00Z", failures), 0U);
}

TEST(ReplacementPolicy, AnEndThatNamesNoPodIsNotRecordedOverAndOver) {
  std::vector<api::Failure> failures;
  control::RankExit nameless = Exit("a");
  nameless.pod_uid.clear();

  EXPECT_EQ(AddRankFailures({nameless, Exit("b")}, "2026-11-20T10:00:00Z", failures), 1U);
  EXPECT_EQ(AddRankFailures({nameless}, "2026-11-20T10:00:01Z", failures), 0U);
  EXPECT_EQ(failures.size(), 1U);
}

TEST(ReplacementPolicy, FailuresThatWerePushedOutDoNotComeBack) {
  std::vector<api::Failure> failures;
  std::vector<control::RankExit> exits;
  for (int i = 0; i < 16; ++i) exits.push_back(Exit(std::to_string(i)));
  AddRankFailures(exits, "2026-11-20T10:00:00Z", failures);
  AddFailure(failures, {.pod_uid = "q", .reason = "OOMKilled"});
  const std::vector<api::Failure> before = failures;

  AddRankFailures(exits, "2026-11-20T10:00:01Z", failures);

  EXPECT_EQ(failures, before);
}

TEST(ReplacementPolicy, RanksThatEndDelayNoPod) {
  const auto failures = Failures(
      {"2026-11-20T10:00:00Z", "2026-11-20T09:59:50Z", "2026-11-20T09:59:40Z"}, "RankFailed");

  EXPECT_EQ(ReplacementDelay(failures, FailedRole::kWorker, kNow), std::chrono::seconds(0));
}

TEST(ReplacementPolicy, OnlyTheNewestFailuresAreKept) {
  std::vector<api::Failure> failures;

  for (int i = 0; i < 20; ++i)
    AddFailure(failures, {.pod_uid = std::to_string(i), .reason = "Error"});

  ASSERT_EQ(failures.size(), api::kMaxFailures);
  EXPECT_EQ(failures.front().pod_uid, "19");
}

TEST(ReplacementPolicy, FourEndsOfRanksAreKeptWhateverHappensToPods) {
  for (const int ranks : {4, 5}) {
    std::vector<api::Failure> failures;
    std::vector<control::RankExit> exits;
    for (int i = 0; i < ranks; ++i) exits.push_back(Exit(std::to_string(i)));
    AddRankFailures(exits, "2026-11-20T08:00:00Z", failures);
    for (int minute = 10; minute < 30; ++minute) {
      const std::string time = "2026-11-20T09:" + std::to_string(minute) + ":00Z";
      AddFailure(failures, {.pod_uid = time, .reason = "Error", .time = time});
    }

    EXPECT_EQ(failures.size(), api::kMaxFailures);
    EXPECT_EQ(failures[failures.size() - 1].start, std::to_string(ranks - 4));
    EXPECT_EQ(failures[failures.size() - 4].start, std::to_string(ranks - 1));
    EXPECT_EQ(failures[failures.size() - 5].start, "");
  }
}

TEST(ReplacementPolicy, KeepsTheNewestStackAlone) {
  std::vector<api::Failure> failures;
  const auto rank = [](const char* start, const char* stack) {
    control::RankExit exit;
    exit.pod_uid = "p";
    exit.start = start;
    exit.signal = 9;
    exit.stack = stack;
    return exit;
  };
  AddRankFailures({rank("a", "stack a"), rank("b", "stack b"), rank("c", "")}, "now", failures);

  ASSERT_EQ(failures.size(), 3U);
  EXPECT_EQ(failures[0].stack, "");
  EXPECT_EQ(failures[1].stack, "stack b");
  EXPECT_EQ(failures[2].stack, "");
}

// Pods that end within five seconds of the first one count as ended together.
TEST(ReplacementPolicy, OfPodsThatEndTogetherTheFirstAndTheNewestAreKept) {
  std::vector<api::Failure> failures;
  const auto end = [&](const std::string& time) {
    AddFailure(failures, {.pod_uid = time, .reason = "Error", .time = "2026-11-20T" + time + "Z"});
  };
  for (int minute = 40; minute < 60; ++minute) end("09:" + std::to_string(minute) + ":00");

  for (int second = 0; second <= 7; ++second) end("10:00:0" + std::to_string(second));

  ASSERT_EQ(failures.size(), api::kMaxFailures);
  std::vector<std::string> newest;
  for (std::size_t i = 0; i < 5; ++i) newest.push_back(failures[i].pod_uid);
  EXPECT_EQ(newest,
            (std::vector<std::string>{"10:00:07", "10:00:06", "10:00:00", "09:59:00", "09:58:00"}));
}

}  // namespace
}  // namespace ringmaster::job
