// Tests workers that fill their data caches: their status, and that the start waits for workers
// that make progress.

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

CoordinatorOptions FirstLauncher(bool elastic = true) {
  CoordinatorOptions options = World::Options(1, elastic);
  options.term = 1;  // no earlier launcher can have formed a world
  return options;
}

// Each second, `who` reports one more GiB, from 1 on, and the workers `alive` send heartbeats.
void FillFor(World* world, std::chrono::seconds time, int who, const std::vector<int>& alive) {
  int64_t done = 0;
  for (auto passed = 0s; passed < time; passed += 1s) {
    world->Say(who, control::DataCacheProgress{++done * kGiB, 1000 * kGiB});
    world->Pass(1s, alive);
  }
}

TEST(FillingWorkers, AreNamedWithHowFarTheyAre) {
  World world(FirstLauncher());
  world.Order({0, 1});
  world.Arrive(0);
  world.Dial(1);

  world.Say(1, control::DataCacheProgress{0, 140 * kGiB});
  EXPECT_EQ(world.membership.Status(world.now).message,
            "waiting for 1 of 2 workers: digits-worker-1 (node-1) is filling its data cache: 0 of "
            "140 GiB");
  world.Say(1, control::DataCacheProgress{41 * kGiB, 140 * kGiB});

  EXPECT_EQ(world.membership.Status(world.now).message,
            "waiting for 1 of 2 workers: digits-worker-1 (node-1) is filling its data cache: 41 of "
            "140 GiB");
  EXPECT_TRUE(world.All<StartMpirun>().empty());
  world.Ready(1);
  EXPECT_EQ(world.LastStart().world_size, 2);
}

TEST(FillingWorkers, NumbersThatCannotBeAreNotShown) {
  World world(FirstLauncher());
  world.Order({0});
  world.Dial(0);

  world.Say(0, control::DataCacheProgress{-1, 140});
  world.Say(0, control::DataCacheProgress{141, 140});

  EXPECT_THAT(world.membership.Status(world.now).message, HasSubstr("is not ready yet"));
}

TEST(FillingWorkers, ANewConnectionKnowsNothingOfTheOldOne) {
  World world(FirstLauncher());
  world.Order({0});
  world.Dial(0);
  world.Say(0, control::DataCacheProgress{1, 2});
  world.Dial(0, 777, "second");

  EXPECT_THAT(world.membership.Status(world.now).message, HasSubstr("is not ready yet"));
}

TEST(FillingWorkers, AreWaitedForWhileTheyComeNearer) {
  World world(FirstLauncher());
  world.Order({0, 1, 2}, 3, 1);
  world.Arrive(0);
  world.Dial(1);
  FillFor(&world, 120s, 1, {0, 1});
  EXPECT_TRUE(world.All<StartMpirun>().empty());
  EXPECT_THAT(world.membership.Status(world.now).message,
              HasSubstr("30 s without progress of a data cache"));

  // The worker reports no progress, so the launcher no longer waits for it.
  world.Pass(28s, {0, 1});
  world.Say(1, control::DataCacheProgress{120 * kGiB, 1000 * kGiB});
  EXPECT_TRUE(world.All<StartMpirun>().empty());
  world.Pass(2s, {0, 1});

  EXPECT_EQ(world.LastStart().world_size, 1);
}

TEST(FillingWorkers, AreNotWaitedForOnceTheyAreLost) {
  World world(FirstLauncher());
  world.Order({0, 1}, 2, 1);
  world.Arrive(0);
  world.Dial(1);
  FillFor(&world, 60s, 1, {0, 1});
  EXPECT_TRUE(world.All<StartMpirun>().empty());

  world.Close(1);
  world.Pass(1s, {0});

  EXPECT_EQ(world.LastStart().world_size, 1);
}

TEST(FillingWorkers, AFaultEndsTheJobThoughOthersStillFill) {
  World world(FirstLauncher());
  world.Order({0, 1});
  world.Dial(0);
  world.Dial(1);
  world.Ready(0, {{"data-cache", "the data is 141 GiB but the node has 90 GiB"}});
  FillFor(&world, 6s, 1, {0, 1});

  ASSERT_TRUE(world.Decided());
  const control::Verdict verdict = world.Verdict()->verdict;
  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed);
  EXPECT_THAT(verdict.message, HasSubstr("digits-worker-0 (node-0) failed the check 'data-cache'"));
  EXPECT_THAT(verdict.message, HasSubstr("the node has 90 GiB"));
}

TEST(FillingWorkers, AJoinerFillsWhileTheOthersTrain) {
  World world(FirstLauncher());
  world.Order({0});
  world.Arrive(0);
  world.AttachAll();
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);
  world.Commit(0, 1);
  world.Order({0, 1});
  world.Dial(1);
  FillFor(&world, 60s, 1, {0, 1});

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world.Sent<control::SwitchEpoch>(), 0);
  EXPECT_THAT(world.membership.Status(world.now).message,
              HasSubstr("digits-worker-1 (node-1) is filling its data cache: "));

  world.Ready(1);

  EXPECT_THAT(world.membership.Status(world.now).message, Not(HasSubstr("fills")));
  EXPECT_EQ(world.Sent<control::SwitchEpoch>(0), 1);
}

// Each change of the world makes a direct job lose its progress.
TEST(FillingWorkers, AProgramIsRestartedOnceForAllThatJoinTogether) {
  World world(FirstLauncher(/*elastic=*/false));
  world.Order({0});
  world.Arrive(0);
  world.AttachAll();
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);
  world.Order({0, 1, 2});
  world.Arrive(1);
  world.Dial(2);
  FillFor(&world, 60s, 2, {0, 1, 2});
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);

  world.Ready(2);

  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
}

}  // namespace
}  // namespace ringmaster::launcher
