#include "worker/launcher/model/current_world.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

TEST(CurrentWorld, KnowsWhoRunsWhere) {
  CurrentWorld world({1, 2}, {{"a", "pod-a", "", "", 0, "s", 0},
                              {"a", "pod-a", "", "", 1, "", 1},
                              {"b", "pod-b", "", "", 0, "s", 2}});

  EXPECT_EQ(world.size(), 3);
  EXPECT_EQ(world.epoch(), (control::Epoch{1, 2}));
  EXPECT_EQ(world.pods(), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(world.RanksOf("a"), (std::vector<int>{0, 1}));
  EXPECT_TRUE(world.RanksOf("c").empty());
  EXPECT_TRUE(world.Contains("b"));
  EXPECT_FALSE(world.Contains("c"));
  EXPECT_EQ(world.At("a", 1)->rank, 1);
  EXPECT_EQ(world.At("b", 1), nullptr);
  EXPECT_TRUE(world.RunsIn("a", 0));
  EXPECT_TRUE(world.RunsIn("b", 2));
  for (const int rank : {-1, 0, 3}) EXPECT_FALSE(world.RunsIn("b", rank)) << rank;
  world.Load(1, "t");
  EXPECT_EQ(world.At("a", 1)->start, "t");
}

}  // namespace
}  // namespace ringmaster::launcher
