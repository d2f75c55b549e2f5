#include "worker/trainer/world_sources/static/static_membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/memory_store.h"

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;

TEST(StaticMembership, IsOneWorldThatNeverChanges) {
  const auto store = std::make_shared<MemoryStore>();
  const auto membership = MakeStaticMembership({.epoch = {}, .rank = 1, .size = 3}, store);

  const Result<World> world = membership->AwaitWorld({});
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->epoch, (control::Epoch{1, 1}));
  EXPECT_EQ(world->rank, 1);
  EXPECT_EQ(world->store, store);
  EXPECT_THAT(world->members, ElementsAre("static/0/1", "static/1/1", "static/2/1"));
  EXPECT_FALSE(membership->SwitchWanted(world->epoch, 1));
  const Result<bool> finished = membership->Finish(*world, {});
  ASSERT_TRUE(finished.ok());
  EXPECT_TRUE(*finished) << "no other world comes";

  const Result<World> next = membership->AwaitWorld(world->epoch);

  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().kind, ErrorKind::kNotFound);
}

TEST(StaticMembership, OfARankAloneNeedsNoStore) {
  const Result<World> world = MakeSingleMembership()->AwaitWorld({});

  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->size, 1);
  EXPECT_EQ(world->store, nullptr);
}

}  // namespace
}  // namespace ringmaster::trainer
