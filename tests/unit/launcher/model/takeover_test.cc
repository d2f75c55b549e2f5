#include "worker/launcher/model/takeover.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

control::Member Reported(const std::string& pod, const std::string& start = "1") {
  return {pod, pod, "node", "10.0.0.1", 0, start, 7};
}

TEST(TakeoverReports, TakesTheHighestEpochReported) {
  Takeover takeover;
  takeover.Report("a", {{1, 4}, {Reported("a"), Reported("b")}, {"1"}});
  takeover.Report("c", {{1, 3}, {Reported("a"), Reported("b"), Reported("c")}, {"1"}});

  EXPECT_EQ(takeover.newest(), (control::Epoch{1, 4}));
  EXPECT_EQ(takeover.epoch(), (control::Epoch{1, 4}));
  EXPECT_EQ(takeover.Runs(Reported("a")), true);
  EXPECT_EQ(takeover.Runs(Reported("a", "2")), false);
  EXPECT_EQ(takeover.Runs(Reported("b")), std::nullopt);
  EXPECT_FALSE(takeover.StartedEverywhere());

  takeover.Report("b", {{1, 4}, {Reported("a"), Reported("b")}, {"1"}});
  EXPECT_TRUE(takeover.StartedEverywhere());
}

TEST(TakeoverReports, TheFirstReportOfTheMembersCounts) {
  Takeover takeover;
  takeover.Report("a", {{1, 4}, {Reported("a"), Reported("b")}, {"1"}});
  takeover.Report("b", {{1, 4}, {Reported("b")}, {"1"}});

  EXPECT_EQ(takeover.members().size(), 2U);
}

TEST(TakeoverReports, HalfOfThePodsAreNotMost) {
  Takeover takeover;
  const std::vector<control::Member> members = {Reported("a"), Reported("b"), Reported("c"),
                                                Reported("d")};
  takeover.Report("a", {{1, 4}, members, {"1"}});
  takeover.Report("b", {{1, 4}, {}, {"1"}});
  takeover.Report("stranger", {{1, 4}, {}, {"1"}});
  EXPECT_FALSE(takeover.MostReported());

  takeover.Report("c", {{1, 4}, {}, {"1"}});

  EXPECT_TRUE(takeover.MostReported());
}

TEST(TakeoverReports, WhoKnowsTheNewestWorldIsAskedForItsMembersInTurn) {
  constexpr Clock::Time kNow{std::chrono::hours(1)};
  constexpr std::chrono::milliseconds kAgain{1000};
  Takeover takeover;
  takeover.Report("a", {{1, 4}, {}, {"1"}});
  takeover.Report("b", {{1, 4}, {}, {"1"}});
  takeover.Report("old", {{1, 3}, {}, {"1"}});
  const Takeover::Connections connections = {{5, "a"}, {6, "b"}, {7, "old"}};
  EXPECT_TRUE(takeover.MembersPending({1, 3}, connections));
  EXPECT_FALSE(takeover.MembersPending({1, 4}, connections)) << "that world is known";
  EXPECT_FALSE(takeover.MembersPending({1, 3}, {{7, "old"}})) << "no agent can be asked";

  EXPECT_EQ(takeover.AskNow(kNow, connections, kAgain), 5);
  EXPECT_EQ(takeover.AskNow(kNow + kAgain - kAgain / 10, connections, kAgain), std::nullopt);
  EXPECT_EQ(takeover.AskNow(kNow + kAgain, connections, kAgain), 6);
  EXPECT_EQ(takeover.AskNow(kNow + 2 * kAgain, connections, kAgain), 5);
  EXPECT_EQ(takeover.AskNow(kNow + 2 * kAgain, {{6, "b"}}, kAgain), 6) << "that one has gone";
  takeover.Report("a", {{1, 4}, {Reported("a")}, {"1"}});
  EXPECT_FALSE(takeover.MembersPending({1, 3}, connections)) << "they are known";
}

TEST(TakeoverReports, TheNewestEarlyMessageOfEachKindIsKept) {
  Takeover takeover;
  takeover.Keep("a", 0, control::RankDone{{1, 4}, 0});
  takeover.Keep("a", 0, control::RankDone{{1, 5}, 0});
  takeover.Keep("a", 1, control::RankDone{{1, 4}, 1});
  takeover.Keep("a", 0, control::RankAtBoundary{{1, 4}, 0, 7});

  const Takeover::EarlyMessages early = takeover.TakeEarly();

  ASSERT_EQ(early.size(), 3U);
  const auto done = early.find({"a", 0, control::Message(control::RankDone{}).index()});
  ASSERT_NE(done, early.end());
  EXPECT_EQ(std::get<control::RankDone>(done->second).epoch, (control::Epoch{1, 5}));
  EXPECT_TRUE(takeover.TakeEarly().empty());
}

TEST(TakeoverReports, EarlyMessagesAreBounded) {
  constexpr int kMost = 4 * control::kMaxRanks;
  Takeover takeover;
  for (int rank = 0; rank <= kMost; ++rank) {
    takeover.Keep("a", rank, control::RankDone{{1, 4}, rank});
  }
  takeover.Keep("a", 0, control::RankDone{{1, 5}, 0});  // a known slot, so there is space for it

  const Takeover::EarlyMessages early = takeover.TakeEarly();

  EXPECT_EQ(static_cast<int>(early.size()), kMost);
  EXPECT_EQ(std::get<control::RankDone>(early.begin()->second).epoch, (control::Epoch{1, 5}));
}

}  // namespace
}  // namespace ringmaster::launcher
