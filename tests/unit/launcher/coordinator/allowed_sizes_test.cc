// Tests a program that supports only some world sizes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::ElementsAre;
using testing::HasSubstr;

class AllowedSizes : public testing::Test {
 protected:
  static CoordinatorOptions TwoOrFour() {
    CoordinatorOptions options = World::Options(1, /*elastic=*/false);
    options.allowed_sizes = {2, 4};
    return options;
  }
  AllowedSizes() { world.Take(world.membership.OnNoMpirun(world.now)); }

  void Lose(int worker, const std::vector<int>& survivors) {
    world.Close(worker);
    world.Pass(700ms, survivors);
    for (const int survivor : world.Members()) {
      if (survivor != worker) world.Exit(survivor, 0, 15);
    }
    world.Pass(200ms, survivors);
  }
  std::string Message() const { return world.membership.Status(world.now).message; }

  World world{TwoOrFour(), /*has_mpirun=*/false};
};

TEST_F(AllowedSizes, AWorldHasTheLargestAndTheOthersStandBy) {
  world.Order({0, 1, 2}, 3, 2);
  for (const int worker : {0, 1, 2}) world.Arrive(worker);

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world.Members(), ElementsAre(0, 1));
  EXPECT_THAT(Message(), HasSubstr("digits-worker-2 (node-2) stands by"));
}

TEST_F(AllowedSizes, AWorkerThatStandsByTakesALostOnesPlaceAtOnce) {
  world.Order({0, 1, 2}, 3, 2);
  for (const int worker : {0, 1, 2}) world.Arrive(worker);

  Lose(0, {1, 2});

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world.Members(), ElementsAre(1, 2));
  EXPECT_EQ(Message(), "");
}

TEST_F(AllowedSizes, OneThatMakesNoLargerWorldEndsNone) {
  world.Order({0, 1, 2, 3}, 4, 2);
  for (const int worker : {0, 1}) world.Arrive(worker);
  world.Pass(30s, {0, 1});
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);

  world.Arrive(2);
  world.Pass(60s, {0, 1, 2});
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world.Members(), ElementsAre(0, 1));

  world.Arrive(3);
  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  EXPECT_THAT(Message(), HasSubstr("2 workers join"));
  for (const int worker : {0, 1}) world.Exit(worker, 0, 15);
  world.Pass(200ms, {0, 1, 2, 3});
  EXPECT_THAT(world.Members(), ElementsAre(0, 1, 2, 3));
}

TEST_F(AllowedSizes, TooFewForAnyWait) {
  world.Order({0, 1, 2, 3}, 4, 1);
  world.Arrive(0);
  world.Pass(60s, {0});
  EXPECT_EQ(world.phase(), LauncherPhase::kWaitingForAgents);
}

}  // namespace
}  // namespace ringmaster::launcher
