#include "worker/launcher/model/change_progress.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;

TEST(ChangeProgress, AllAreAtTheBoundaryOnceAllReportItOrOneDidLongAgo) {
  const Clock::Time now{1h};
  ChangeProgress change;
  EXPECT_FALSE(change.AllAtBoundary(now + 1h, {0, 1, 2}, 3, 100ms)) << "nobody was asked to stop";

  change.ReachBoundary(now, 0);
  EXPECT_FALSE(change.AllAtBoundary(now, {}, 3, 100ms));
  EXPECT_FALSE(change.AllAtBoundary(now + 100ms, {}, 3, 100ms));
  EXPECT_TRUE(change.AllAtBoundary(now + 101ms, {}, 3, 100ms));
  EXPECT_FALSE(change.AllReportedBoundary({0, 1}, 3)) << "rank 0 counts once";
  EXPECT_TRUE(change.AllAtBoundary(now, {1, 2}, 3, 100ms)) << "the others are done";
  change.ReachBoundary(now + 50ms, 1);
  EXPECT_TRUE(change.AllAtBoundary(now + 101ms, {}, 3, 100ms)) << "since the first";
}

TEST(ChangeProgress, ARanksOwnWordCountsAboveWhatOthersSee) {
  const Clock::Time now{1h};
  ChangeProgress change;

  change.BreakUnlessReported(now, {{1, 1}, 0, 1, "seen"});
  change.Break(now + 1s, {{1, 1}, 0, 2, "said"});
  change.BreakUnlessReported(now + 2s, {{1, 1}, 0, 3, "seen"});

  EXPECT_EQ(change.BrokenPeers(), (std::map<int, int>{{0, 2}}));
  EXPECT_EQ(*change.first_broken_at, now);
}

TEST(ChangeProgress, EveryoneIsBrokenOnceEachRankHasReported) {
  ChangeProgress change;

  change.Break({}, {{1, 1}, 0, 1, "reset"});
  change.Break({}, {{1, 1}, 0, 1, "reset"});
  EXPECT_FALSE(change.AllBroken(2)) << "rank 0 counts once";
  change.Break({}, {{1, 1}, 1, 0, "reset"});
  EXPECT_TRUE(change.AllBroken(2));
}

}  // namespace
}  // namespace ringmaster::launcher
