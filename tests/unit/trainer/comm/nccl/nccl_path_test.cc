#include "worker/trainer/comm/nccl/nccl_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;

constexpr int kNewest = 23007;
constexpr ParentState kHealthy = ParentState::kHealthy;
constexpr ParentState kRevoked = ParentState::kRevoked;
constexpr ParentState kBroken = ParentState::kBroken;

NcclStatement From(int parent_rank, int parent_size, ParentState state, int version = kNewest,
                   const char* parent = "1.1") {
  return {.version = version,
          .parent = parent,
          .parent_rank = parent_rank,
          .parent_size = parent_size,
          .state = state};
}

NcclStatement Fresh(int version = kNewest) { return {.version = version}; }

struct Case {
  const char* name;
  std::vector<NcclStatement> ranks;
  NcclPath path;
};

TEST(NcclPath, OfWhatTheRanksState) {
  const Case cases[] = {
      {"first world", {Fresh(), Fresh()}, NcclPath::kNew},
      {"one was lost, all revoked",
       {From(0, 3, kRevoked), From(2, 3, kRevoked)},
       NcclPath::kShrink},
      {"one has not revoked", {From(0, 3, kRevoked), From(2, 3, kBroken)}, NcclPath::kShrinkAbort},
      {"left at a step's boundary",
       {From(0, 3, kHealthy), From(1, 3, kHealthy)},
       NcclPath::kShrinkAbort},
      {"one had to abort its parent", {From(0, 3, kRevoked), Fresh()}, NcclPath::kNew},
      {"one was lost and another came", {From(0, 2, kRevoked), Fresh()}, NcclPath::kNew},
      {"nobody was lost", {From(0, 2, kRevoked), From(1, 2, kRevoked)}, NcclPath::kNew},
      {"other order", {From(2, 3, kRevoked), From(0, 3, kRevoked)}, NcclPath::kNew},
      {"other parents",
       {From(0, 3, kRevoked), From(1, 3, kRevoked, kNewest, "1.2")},
       NcclPath::kNew},
      {"before shrink", {From(0, 3, kBroken, 22602), From(1, 3, kBroken, 22602)}, NcclPath::kNew},
      {"with shrink alone",
       {From(0, 3, kBroken, 22703), From(1, 3, kBroken, 22703)},
       NcclPath::kShrinkAbort},
      {"two versions", {From(0, 3, kRevoked), From(1, 3, kRevoked, 22907)}, NcclPath::kNew},
      {"one came", {From(0, 2, kHealthy), From(1, 2, kHealthy), Fresh()}, NcclPath::kGrow},
      {"one came back with an old parent",
       {From(0, 1, kHealthy), From(1, 2, kRevoked, kNewest, "0.9")},
       NcclPath::kGrow},
      {"one came after a fault",
       {From(0, 2, kRevoked), From(1, 2, kRevoked), Fresh()},
       NcclPath::kNew},
      {"one came in between",
       {From(0, 2, kHealthy), Fresh(), From(1, 2, kHealthy)},
       NcclPath::kNew},
      {"one came as another left", {From(0, 2, kHealthy), Fresh(), Fresh()}, NcclPath::kNew},
      {"before grow", {From(0, 1, kHealthy, 22809), Fresh(22809)}, NcclPath::kNew},
      {"alone at last", {From(1, 2, kRevoked)}, NcclPath::kShrink},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(static_cast<int>(PathOf(each.ranks)), static_cast<int>(each.path)) << each.name;
  }
}

TEST(NcclPath, AllRanksRegisterOrNoneDoes) {
  const NcclStatement can{.version = kNewest, .registers = true};
  const NcclStatement other{.version = kNewest - 1, .registers = true};

  EXPECT_TRUE(AllRegister(std::vector{can, can}));
  EXPECT_FALSE(AllRegister(std::vector{can, Fresh()}));
  EXPECT_FALSE(AllRegister(std::vector{can, other})) << "each decides by itself what it does then";
}

TEST(NcclPath, ExcludesWhoIsNotThere) {
  const std::vector<NcclStatement> ranks{From(1, 5, kRevoked), From(3, 5, kRevoked)};

  EXPECT_THAT(ExcludedFrom(ranks), ElementsAre(0, 2, 4));
}

}  // namespace
}  // namespace ringmaster::trainer
