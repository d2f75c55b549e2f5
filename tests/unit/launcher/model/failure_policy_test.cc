#include "worker/launcher/model/failure_policy.h"

#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;
using control::RankExit;

constexpr Clock::Time kStart{1h};

CoordinatorOptions Options(bool elastic = true) {
  CoordinatorOptions options;
  options.elastic = elastic;
  options.settle = 300ms;
  options.peer_lost_settle = 1500ms;
  options.restart_limit = 2;
  options.crash_limit = 3;
  options.exit_codes.fail = {7};
  options.exit_codes.ignored = {8};
  return options;
}

RankExit Exit(int rank, int code, int signal = 0) {
  RankExit exit;
  exit.rank = rank;
  exit.pod_uid = "uid-" + std::to_string(rank);
  exit.start = "first";
  exit.exit_code = signal > 0 ? -1 : code;
  exit.signal = signal;
  return exit;
}

TEST(FailurePolicy, EndsWithinTheLimitFailNothing) {
  FailurePolicy policy(Options());

  policy.Fail(kStart, Exit(0, 1));
  policy.Fail(kStart, Exit(1, 1));
  EXPECT_FALSE(policy.MustFail());
  EXPECT_FALSE(policy.Judge(kStart + 10s));
  policy.Fail(kStart + 11s, Exit(2, 1));

  EXPECT_TRUE(policy.MustFail());
}

TEST(FailurePolicy, WhatTheMachineDidDoesNotCount) {
  FailurePolicy policy(Options());

  for (int i = 0; i < 5; ++i) {
    policy.Fail(kStart, Exit(i, 0, 9));
    policy.Fail(kStart, Exit(i, 8));
    policy.Fail(kStart, Exit(i, control::kExitDeviceUnhealthy));
  }

  EXPECT_FALSE(policy.MustFail());
}

TEST(FailurePolicy, ACodeThatAgentsUseForAProgramThatCannotStartCountsWhereARankExitsWithIt) {
  FailurePolicy policy(Options());

  for (int i = 0; i < 3; ++i) policy.Fail(kStart, Exit(i, control::kExitNotStarted));

  EXPECT_TRUE(policy.MustFail());
}

TEST(FailurePolicy, SomeCodesFailAtOnce) {
  for (const int code : {control::kExitUserError, 7}) {
    FailurePolicy policy(Options());

    policy.Fail(kStart, Exit(0, code));

    EXPECT_TRUE(policy.MustFail()) << code;
    EXPECT_FALSE(policy.Judge(kStart + 299ms)) << code;
    const auto culprit = policy.Judge(kStart + 300ms);
    ASSERT_TRUE(culprit) << code;
    EXPECT_EQ(culprit->exit_code, code);
  }
}

TEST(FailurePolicy, WaitsLongerWhileOnlyVictimsHaveEnded) {
  for (const RankExit& victim : {Exit(0, control::kExitPeerLost), Exit(0, 0, 15)}) {
    FailurePolicy policy(Options());
    policy.FailStart(kStart, victim);

    EXPECT_FALSE(policy.Judge(kStart + 1499ms));
    EXPECT_TRUE(policy.Judge(kStart + 1500ms));
  }
}

// The order of causes: a user error, a lack of memory, an exit by the rank itself, a kill from
// outside, the loss of a peer. Among equal causes, the first exit is blamed.
TEST(FailurePolicy, BlamesCausesBeforeVictims) {
  RankExit memory = Exit(1, 0, 9);
  memory.out_of_memory.emplace();
  const std::vector<RankExit> order = {Exit(0, control::kExitUserError), memory, Exit(2, 1),
                                       Exit(3, 0, 15), Exit(4, control::kExitPeerLost)};
  for (std::size_t cause = 0; cause + 1 < order.size(); ++cause) {
    FailurePolicy policy(Options());
    policy.FailStart(kStart, order[cause + 1]);
    policy.FailStart(kStart, order[cause]);
    policy.FailStart(kStart, order[cause]);

    const auto culprit = policy.Judge(kStart + 10s);

    ASSERT_TRUE(culprit);
    EXPECT_EQ(culprit->rank, order[cause].rank);
  }
}

TEST(FailurePolicy, ForgetsWhatCostNothing) {
  FailurePolicy policy(Options());
  policy.Fail(kStart, Exit(0, 1));

  EXPECT_TRUE(policy.Lists("uid-0", 0));
  EXPECT_FALSE(policy.Lists("uid-0", 1));
  EXPECT_FALSE(policy.Lists("uid-1", 0));
  EXPECT_FALSE(policy.Judge(kStart + 1499ms));
  EXPECT_TRUE(policy.Lists("uid-0", 0));
  EXPECT_FALSE(policy.Judge(kStart + 1500ms));

  EXPECT_FALSE(policy.Lists("uid-0", 0));
}

TEST(FailurePolicy, ANewStartForgetsFailuresAndNotTheLimit) {
  FailurePolicy policy(Options());
  for (int i = 0; i < 3; ++i) policy.Fail(kStart, Exit(i, 1));
  ASSERT_TRUE(policy.MustFail());

  policy.Reset();

  EXPECT_FALSE(policy.MustFail());
  EXPECT_FALSE(policy.Judge(kStart + 10s));
  policy.Fail(kStart + 10s, Exit(0, 1));
  EXPECT_TRUE(policy.MustFail());
}

TEST(FailurePolicy, ARowOfCrashesFailsUntilAStepIsCommitted) {
  FailurePolicy policy(Options());
  for (int i = 1; i <= 3; ++i)
    policy.Crash(kStart + i * 1s, kStart + i * 1s, Exit(0, 0, 9), "rank 0");

  EXPECT_EQ(policy.crashes(), 3);
  EXPECT_TRUE(policy.CrashLimitReached());
  EXPECT_TRUE(policy.MustFail());
  EXPECT_EQ(policy.CrashText(),
            "rank 0; ranks failed 3 times in a row without a completed step, the limit "
            "(runPolicy.restart.crashLimit)");
  EXPECT_EQ(policy.FailureBy(Exit(0, 0, 9), "rank 0").reason, control::kReasonCrashLoop);
  policy.Committed(1);

  EXPECT_FALSE(policy.MustFail());
}

TEST(FailurePolicy, ReportsWhyTheJobFails) {
  FailurePolicy policy(Options());
  RankExit memory = Exit(1, 0, 9);
  memory.out_of_memory.emplace();
  struct {
    RankExit exit;
    const char* reason;
    int exit_code;
  } const cases[] = {
      {Exit(0, control::kExitUserError), control::kReasonUserError, control::kExitUserError},
      {Exit(0, 7), control::kReasonRankFailed, 7},
      {Exit(0, 0, 11), control::kReasonRankFailed, 128 + 11},
      {memory, control::kReasonOOMKilled, 128 + 9},
      {Exit(0, 0), control::kReasonRankFailed, 1},
      {Exit(0, 1), control::kReasonRankFailed, 1},
  };
  for (const auto& c : cases) {
    const Failure failure = policy.FailureBy(c.exit, "rank 0 on a");
    EXPECT_EQ(failure.reason, c.reason) << failure.message;
    EXPECT_EQ(failure.exit_code, c.exit_code) << failure.message;
    EXPECT_TRUE(failure.message.starts_with("rank 0 on a ")) << failure.message;
    EXPECT_TRUE(failure.message.find("it printed no output") != std::string::npos);
    EXPECT_EQ(failure.message.find("failOnExitCodes") != std::string::npos, c.exit.exit_code == 7);
    ASSERT_TRUE(failure.first);
  }
}

TEST(FailurePolicy, ReportsHowManyRanksEndedBeforeIfTheJobFailsForThat) {
  struct Case {
    const char* what;
    int limit;
    int ended_before;
    int exit_code;
    const char* says;
  };
  const Case cases[] = {
      {"none may end", 0, 0, 1, "; it printed no output"},
      {"one", 1, 1, 1, "; it printed no output; 1 rank had ended before it, the limit"},
      {"two", 2, 2, 1, "; it printed no output; 2 ranks had ended before it, the limit"},
      {"an error of the user", 2, 2, control::kExitUserError, "; it printed no output"},
      {"another reason", 3, 2, 1, "; it printed no output"},
  };
  for (const Case& c : cases) {
    CoordinatorOptions options = Options();
    options.restart_limit = c.limit;
    FailurePolicy policy(options);
    for (int i = 0; i < c.ended_before; ++i) policy.Fail(kStart, Exit(i, 1));
    policy.Fail(kStart, Exit(9, c.exit_code));

    const std::string message = policy.FailureBy(Exit(9, c.exit_code), "rank 9").message;

    EXPECT_TRUE(message.ends_with(c.says)) << c.what << ": " << message;
  }
}

TEST(FailurePolicy, ReportsHowOftenRanksCrashedAndTheLimitIfThereIsOne) {
  struct Case {
    int limit;
    int crashes;
    const char* says;
  };
  for (const Case& c :
       {Case{0, 1, "rank 0; ranks failed 1 time without a completed step"},
        Case{0, 2, "rank 0; ranks failed 2 times in a row without a completed step"},
        Case{3, 1,
             "rank 0; ranks failed 1 time without a completed step, and the job fails at 3 "
             "(runPolicy.restart.crashLimit)"}}) {
    CoordinatorOptions options = Options();
    options.crash_limit = c.limit;
    FailurePolicy policy(options);
    for (int i = 1; i <= c.crashes; ++i)
      policy.Crash(kStart + i * 1s, kStart + i * 1s, Exit(0, 0, 9), "rank 0");

    EXPECT_EQ(policy.CrashText(), c.says);
  }
}

TEST(FailurePolicy, AProgramsFirstFailureIsBlamedAndByArrivalAmongEquals) {
  FailurePolicy policy(Options(false));
  const ReportedExit late{Exit(0, 1), 2};
  const ReportedExit early{Exit(1, 1), 1};
  const ReportedExit victim{Exit(2, control::kExitPeerLost), 0};

  EXPECT_FALSE(policy.JudgeExits(kStart, {&late, &early, &victim}));
  EXPECT_FALSE(policy.JudgeExits(kStart + 299ms, {&late, &early, &victim}));
  const auto blame = policy.JudgeExits(kStart + 300ms, {&late, &early, &victim});

  ASSERT_TRUE(blame);
  EXPECT_EQ(blame->end.exit.rank, 1);
  EXPECT_EQ(blame->reported_since, kStart + 150ms);
}

TEST(FailurePolicy, ARankThatWasNotStartedIsBlamedBeforeThoseThatWaitForIt) {
  FailurePolicy policy(Options(false));
  const ReportedExit user_error{Exit(0, control::kExitUserError), 0};
  const ReportedExit own_code{Exit(1, control::kExitNotStarted), 1};
  const ReportedExit not_started{Exit(2, control::kExitNotStarted), 2, true};
  policy.JudgeExits(kStart, {&user_error, &own_code, &not_started});

  const auto blame = policy.JudgeExits(kStart + 300ms, {&user_error, &own_code, &not_started});
  const auto others = policy.JudgeExits(kStart + 300ms, {&own_code, &user_error});

  ASSERT_TRUE(blame);
  EXPECT_EQ(blame->end.exit.rank, 2);
  EXPECT_TRUE(blame->end.not_started);
  ASSERT_TRUE(others);
  EXPECT_EQ(others->end.exit.rank, 0);
}

TEST(FailurePolicy, AProgramsVictimsAreWaitedForLonger) {
  FailurePolicy policy(Options(false));
  const ReportedExit victim{Exit(0, control::kExitPeerLost), 0};
  policy.JudgeExits(kStart, {&victim});

  EXPECT_FALSE(policy.JudgeExits(kStart + 1499ms, {&victim}));
  const auto blame = policy.JudgeExits(kStart + 1500ms, {&victim});

  ASSERT_TRUE(blame);
  EXPECT_EQ(blame->reported_since, kStart + 750ms);
}

TEST(FailurePolicy, RecordsTheNewestEndsWithFewLinesAndOneStack) {
  FailurePolicy policy(Options());
  for (int i = 0; i < 20; ++i) {
    RankExit exit = Exit(i, 1);
    exit.last_lines = {"1", "2", "3", "4"};
    exit.stack = "main";
    policy.Record(exit);
  }

  ASSERT_EQ(policy.recorded().size(), 16U);
  EXPECT_EQ(policy.recorded().front().rank, 4);
  EXPECT_EQ(policy.recorded().front().last_lines, (std::vector<std::string>{"2", "3", "4"}));
  EXPECT_EQ(policy.recorded().back().stack, "main");
  EXPECT_EQ(policy.recorded()[14].stack, "");
  policy.Record(Exit(19, 1));
  EXPECT_EQ(policy.recorded().front().rank, 4) << "the same end again";
  EXPECT_EQ(policy.recorded().size(), 16U);
  EXPECT_TRUE(policy.recorded().back().last_lines.empty());
}

TEST(FailurePolicy, KnowsWhatLoadsAgain) {
  const FailurePolicy policy(Options());

  EXPECT_TRUE(policy.LoadsAgain(Exit(0, 1)));
  for (const int code :
       {0, control::kExitUserError, control::kExitCannotStart, control::kExitDeviceUnhealthy, 8}) {
    EXPECT_FALSE(policy.LoadsAgain(Exit(0, code))) << code;
  }
}

TEST(PrintedText, TakesTheLastWordsAndAllOfAFrame) {
  EXPECT_EQ(PrintedText({}), "it printed no output");
  EXPECT_EQ(PrintedText({"----", " "}), "it printed no output");
  EXPECT_EQ(PrintedText({"first", " last \r", "--"}), "last output: last");
  EXPECT_EQ(PrintedText({"before", "-----", "one", "two", "-----"}), "last output: one two");
}

}  // namespace
}  // namespace ringmaster::launcher
