// Tests successive worlds over NCCL: the calls with which each rank makes the next communicator.

#include <array>
#include <latch>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/eventually.h"
#include "tests/fakes/patience.h"
#include "tests/unit/trainer/comm/nccl/fake_nccl.h"
#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/comm/nccl/nccl_communicator.h"

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;

// A store in which rank 0 cannot publish its plan.
class StoreWithoutPlan final : public Store {
 public:
  Result<void> Set(const std::string& key, const std::string& value) override {
    if (key == "nccl/plan") return Error{ErrorKind::kUnavailable, "the store is gone"};
    return store_.Set(key, value);
  }
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override {
    return store_.Get(keys, deadline);
  }

 private:
  MemoryStore store_;
};

class NcclWorldsTest : public ::testing::Test {
 protected:
  // Forms the next world from these processes, in this order, and runs one barrier. If `broken`,
  // aborts the communicators afterwards. Returns the number of processes whose barrier succeeded.
  int Form(const std::vector<std::size_t>& processes, bool broken = false) {
    ++epoch;
    std::atomic<int> succeeded = 0;
    RunRanks(static_cast<int>(processes.size()), [&](World world) {
      world.epoch = {.term = 1, .number = epoch};
      FakeRank& process = ranks[processes[static_cast<std::size_t>(world.rank)]];
      NcclCommunicator communicator(process.runtime, world, In(kSoon), abandoned_connects);
      if (communicator.Barrier(In(kSoon))->Wait().ok()) ++succeeded;
      if (broken) communicator.Abort("a rank was lost");
    });
    return succeeded;
  }

  int64_t epoch = 0;
  std::array<FakeRank, 3> ranks;
  AbandonedConnects abandoned_connects;  // destroyed first: its threads use the objects above
};

TEST_F(NcclWorldsTest, ConfirmationsNeedEveryRanksPart) {
  std::atomic<int> confirmed = 0;
  const auto confirm_twice = [&](World world) {
    world.epoch = {.term = 1, .number = epoch};
    NcclCommunicator communicator(ranks[static_cast<std::size_t>(world.rank)].runtime, world,
                                  In(kSoon), abandoned_connects);
    for (int i = 0; i < 2; ++i) {
      if (communicator.Confirm(In(kSoon))->Wait().ok()) ++confirmed;
    }
  };
  epoch = 1;
  RunRanks(3, confirm_twice);
  epoch = 2;
  RunRanks(3, confirm_twice);
  EXPECT_EQ(confirmed, 12);
  const std::vector<uint64_t> given = ranks[0].nccl.summed();
  EXPECT_EQ(std::set<uint64_t>(given.begin(), given.end()).size(), 4U) << "no two are alike";
  EXPECT_EQ(ranks[1].nccl.summed(), given);

  for (FakeRank& rank : ranks) rank.nccl.peer_gave_nothing = true;
  epoch = 3;
  RunRanks(3, confirm_twice);
  EXPECT_EQ(confirmed, 12);
}

TEST_F(NcclWorldsTest, ALostRankIsShrunkAwayAndTheParentAborted) {
  ASSERT_EQ(Form({0, 1, 2}, /*broken=*/true), 3);

  ASSERT_EQ(Form({0, 2}), 2);

  EXPECT_THAT(ranks[2].nccl.calls(), ElementsAre("init 2/3", "all_reduce", "revoke",
                                                 "shrink 0 [1,]", "abort", "all_reduce"));
}

TEST_F(NcclWorldsTest, LeavingAtABoundaryShrinksAfterAnAbort) {
  ASSERT_EQ(Form({0, 1, 2}), 3);

  ASSERT_EQ(Form({0, 1}), 2);

  EXPECT_THAT(ranks[0].nccl.calls(),
              ElementsAre("init 0/3", "all_reduce", "shrink 1 [2,]", "abort", "all_reduce"));
}

TEST_F(NcclWorldsTest, AJoinerGrowsAHealthyParent) {
  ASSERT_EQ(Form({0, 1}), 2);

  ASSERT_EQ(Form({0, 1, 2}), 3);

  EXPECT_THAT(ranks[0].nccl.calls(), ElementsAre("init 0/2", "all_reduce", "grow id",
                                                 "grow -1/3 id", "abort", "all_reduce"));
  EXPECT_THAT(ranks[1].nccl.calls(),
              ElementsAre("init 1/2", "all_reduce", "grow -1/3", "abort", "all_reduce"));
  EXPECT_THAT(ranks[2].nccl.calls(), ElementsAre("grow 2/3 joins id", "all_reduce"));
}

TEST_F(NcclWorldsTest, AJoinerAfterAFaultMeansANewOne) {
  ASSERT_EQ(Form({0, 1}, /*broken=*/true), 2);

  ASSERT_EQ(Form({0, 2}), 2);

  EXPECT_THAT(ranks[0].nccl.calls(),
              ElementsAre("init 0/2", "all_reduce", "revoke", "abort", "init 0/2", "all_reduce"));
}

TEST_F(NcclWorldsTest, AfterAShrinkThatFailedTheNextIsNew) {
  ASSERT_EQ(Form({0, 1, 2}, /*broken=*/true), 3);
  for (FakeRank& rank : ranks) rank.nccl.shrink_result = NcclResult::kInternalError;

  EXPECT_EQ(Form({0, 1}), 0);
  EXPECT_EQ(Form({0, 1}), 2);

  EXPECT_THAT(ranks[0].nccl.calls(),
              ElementsAre("init 0/3", "all_reduce", "revoke", "shrink 0 [2,]", "abort", "init 0/2",
                          "all_reduce"));
}

TEST_F(NcclWorldsTest, AShrinkThatFailsLateLeavesNothing) {
  ASSERT_EQ(Form({0, 1, 2}, /*broken=*/true), 3);
  for (FakeRank& rank : ranks) rank.nccl.late_result = NcclResult::kRemoteError;

  EXPECT_EQ(Form({0, 1}), 0);
  EXPECT_EQ(ranks[0].nccl.alive(), 0);
  EXPECT_EQ(Form({0, 1}), 2);

  EXPECT_THAT(ranks[0].nccl.calls(),
              ElementsAre("init 0/3", "all_reduce", "revoke", "shrink 0 [2,]", "abort", "abort",
                          "init 0/2", "all_reduce"));
}

TEST_F(NcclWorldsTest, AGrowThatFailsLateLeavesNothing) {
  ASSERT_EQ(Form({0, 1}), 2);
  for (FakeRank& rank : ranks) rank.nccl.late_result = NcclResult::kRemoteError;

  EXPECT_EQ(Form({0, 1, 2}), 0);

  for (FakeRank& rank : ranks) EXPECT_EQ(rank.nccl.alive(), 0);
}

// The abort of the parent blocks while the world ends and the next one begins.
TEST_F(NcclWorldsTest, AnAbandonedShrinkDoesNotEndTheNextWorld) {
  ASSERT_EQ(Form({0, 1, 2}, /*broken=*/true), 3);
  std::atomic<int> aborts = 0;
  std::latch aborting(1);
  std::latch next_began(1);
  ranks[0].nccl.on_abort = [&] {
    if (++aborts == 1) aborting.count_down();
    next_began.wait();
  };
  const auto connect = [&](int rank, const std::shared_ptr<MemoryStore>& store) {
    World world;
    world.epoch = {.term = 1, .number = 2};
    world.rank = rank;
    world.size = 2;
    world.store = store;
    return std::make_unique<NcclCommunicator>(ranks[static_cast<std::size_t>(rank)].runtime, world,
                                              In(kSoon), abandoned_connects);
  };
  const auto store = std::make_shared<MemoryStore>();
  auto first = connect(0, store);
  const auto second = connect(1, store);
  aborting.wait();
  first->Abort("rank 1 was lost");
  first.reset();
  World next;
  next.epoch = {.term = 1, .number = 3};
  next.store = std::make_shared<MemoryStore>();
  NcclCommunicator communicator(ranks[0].runtime, next, In(kSoon), abandoned_connects);
  EXPECT_TRUE(communicator.Barrier(In(kSoon))->Wait().ok());

  next_began.count_down();

  EXPECT_TRUE(Eventually([&] { return abandoned_connects.Hanging() == 0; }));
  ranks[0].nccl.on_abort = nullptr;
  const Result<void> waited = communicator.Barrier(In(kSoon))->Wait();
  EXPECT_TRUE(waited.ok()) << waited.error().message;
  EXPECT_EQ(ranks[0].nccl.alive(), 1) << "only the communicator of the last world";
}

TEST_F(NcclWorldsTest, AnAbandonedGrowEndsTheChildBeforeTheParent) {
  ASSERT_EQ(Form({0}), 1);
  ranks[0].nccl.hold_making = true;
  ranks[1].nccl.hold_making = true;

  RunRanks(2, [&](const World& world) {
    FakeRank& process = ranks[static_cast<std::size_t>(world.rank)];
    NcclCommunicator communicator(process.runtime, world,
                                  In(std::chrono::milliseconds(200) * Patience()),
                                  abandoned_connects);
    EXPECT_FALSE(communicator.Barrier(In(kSoon))->Wait().ok());
  });

  EXPECT_THAT(ranks[0].nccl.calls(), ElementsAre("init 0/1", "all_reduce", "grow id",
                                                 "grow -1/2 id", "revoke", "abort", "abort"));
  EXPECT_EQ(ranks[0].nccl.alive(), 0);
  EXPECT_EQ(ranks[1].nccl.alive(), 0);
}

TEST_F(NcclWorldsTest, AParentWhoseGrowWasNotPublishedIsNotKept) {
  ASSERT_EQ(Form({0}), 1);
  World world;
  world.size = 2;
  world.store = std::make_shared<StoreWithoutPlan>();
  World other = world;
  other.rank = 1;
  const Deadline deadline = In(std::chrono::milliseconds(200) * Patience());
  NcclCommunicator second(ranks[1].runtime, other, deadline, abandoned_connects);
  NcclCommunicator first(ranks[0].runtime, world, deadline, abandoned_connects);

  EXPECT_FALSE(first.Barrier(In(kSoon))->Wait().ok());

  EXPECT_THAT(ranks[0].nccl.calls(), ElementsAre("init 0/1", "all_reduce", "grow id", "abort"));
}

TEST_F(NcclWorldsTest, NothingIsMadeOfAParentThatFailedWhileItWasParked) {
  ASSERT_EQ(Form({0, 1, 2}), 3);
  FakeNccl& nccl = ranks[1].nccl;
  nccl.async_error = NcclResult::kRemoteError;
  nccl.on_abort = [&] { nccl.async_error = NcclResult::kSuccess; };

  EXPECT_EQ(Form({0, 1}), 2);

  EXPECT_THAT(nccl.calls(),
              ElementsAre("init 1/3", "all_reduce", "abort", "init 1/2", "all_reduce"));
}

TEST_F(NcclWorldsTest, EachWorldRegistersOnceBeforeItsFirstOperation) {
  for (FakeRank& rank : ranks) ASSERT_NE(rank.runtime->MakeRegistered(64), nullptr);

  ASSERT_EQ(Form({0, 1, 2}, /*broken=*/true), 3);
  ASSERT_EQ(Form({0, 1}), 2);
  ASSERT_EQ(Form({0, 1, 2}), 3);
  ASSERT_EQ(Form({0, 2}, /*broken=*/true), 2);
  ASSERT_EQ(Form({0, 1, 2}), 3);

  EXPECT_THAT(ranks[0].nccl.calls(),
              ElementsAre("init 0/3", "register 64", "all_reduce", "revoke",                //
                          "shrink 0 [2,]", "abort", "register 64", "all_reduce",            //
                          "grow id", "grow -1/3 id", "abort", "register 64", "all_reduce",  //
                          "shrink 1 [1,]", "abort", "register 64", "all_reduce", "revoke",  //
                          "abort", "init 0/3", "register 64", "all_reduce"));
}

TEST_F(NcclWorldsTest, NoRankRegistersIfOneCannot) {
  ranks[1].nccl.memory_result = NcclResult::kUnhandledCudaError;
  for (FakeRank& rank : ranks) rank.runtime->MakeRegistered(64);

  ASSERT_EQ(Form({0, 1, 2}), 3);
  ASSERT_EQ(Form({0, 2}), 2);

  EXPECT_THAT(ranks[0].nccl.calls(), ElementsAre("init 0/3", "all_reduce", "shrink 1 [1,]", "abort",
                                                 "register 64", "all_reduce"));
  EXPECT_FALSE(ranks[1].nccl.Called("register 64"));
}

TEST_F(NcclWorldsTest, NoRankRegistersAfterAFailedRegistration) {
  for (FakeRank& rank : ranks) ASSERT_NE(rank.runtime->MakeRegistered(64), nullptr);
  ranks[1].nccl.register_result = NcclResult::kInvalidArgument;

  EXPECT_LT(Form({0, 1}), 2)
      << "what the other ranks registered may not be used without this one's";
  EXPECT_EQ(Form({0, 1}), 2);

  EXPECT_EQ(std::ranges::count(ranks[0].nccl.calls(), "register 64"), 1);
  EXPECT_THAT(ranks[1].nccl.calls(),
              ElementsAre("init 1/2", "register 64", "abort", "init 1/2", "all_reduce"));
}

TEST_F(NcclWorldsTest, AWorldOfOneRegistersNothing) {
  ASSERT_NE(ranks[0].runtime->MakeRegistered(64), nullptr);

  ASSERT_EQ(Form({0}), 1);

  EXPECT_THAT(ranks[0].nccl.calls(), ElementsAre("init 0/1", "all_reduce"));
}

TEST_F(NcclWorldsTest, AnOlderNcclHasNoMemoryToRegister) {
  FakeRank old(22809);

  EXPECT_EQ(old.runtime->MakeRegistered(64), nullptr);
}

TEST_F(NcclWorldsTest, NothingIsLeftAtTheEnd) {
  for (FakeRank& rank : ranks) rank.runtime->MakeRegistered(64);
  Form({0, 1, 2}, /*broken=*/true);
  Form({0, 1});
  for (FakeRank& rank : ranks) rank.runtime.reset();

  for (FakeRank& rank : ranks) EXPECT_EQ(rank.nccl.alive(), 0);
}

TEST_F(NcclWorldsTest, RankZeroNamesTheOnlyRankThatDoesNotCome) {
  World world;
  world.size = 3;
  world.store = std::make_shared<MemoryStore>();
  World other = world;
  other.rank = 1;
  const Deadline deadline = In(std::chrono::milliseconds(200) * Patience());
  NcclCommunicator second(ranks[1].runtime, other, deadline, abandoned_connects);
  NcclCommunicator first(ranks[0].runtime, world, deadline, abandoned_connects);

  const Result<void> waited = first.Barrier(In(kSoon))->Wait();

  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(first.LostPeer(), 2);
}

}  // namespace
}  // namespace ringmaster::trainer
