// Tests which rows each rank keeps, sends and provides.

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/trainer/communicator_wrapper.h"
#include "worker/trainer/comm/loopback_communicator.h"
#include "worker/trainer/partial_fc/centre_table.h"
#include "worker/trainer/partial_fc/copies.h"
#include "worker/trainer/partial_fc/replica_peers.h"
#include "worker/trainer/partial_fc/row_plan.h"

namespace ringmaster::trainer::partial_fc {
namespace {

TEST(ReplicaPeers, AreOnOtherPodsWhereverThatCanBe) {
  struct Case {
    std::vector<std::string> pods;
    std::vector<int> replica_peers;
  };
  for (const Case& one : {
           Case{{"a"}, {0}},
           Case{{"a", "b"}, {1, 0}},
           Case{{"a", "b", "c"}, {1, 2, 0}},
           Case{{"a", "a", "b", "b"}, {2, 3, 0, 1}},
           Case{{"a", "b", "a", "b"}, {1, 0, 3, 2}},
           Case{{"a", "a", "b", "c"}, {2, 3, 0, 1}},
           Case{{"a", "a", "a"}, {1, 2, 0}},  // a single Pod: copies are in its other processes
           Case{{"a", "a", "a", "b"}, {3, 0, 1, 2}},
       }) {
    std::vector<std::string> members;
    for (const std::string& pod : one.pods) members.push_back(pod + "/0/1");

    const std::vector<int> replica_peers =
        ReplicaPeersOf(members, static_cast<int>(members.size()));

    EXPECT_EQ(replica_peers, one.replica_peers) << one.pods.front() << one.pods.size();
    const std::vector<int> sources = ReplicaSourcesOf(replica_peers);
    for (std::size_t rank = 0; rank < replica_peers.size(); ++rank) {
      EXPECT_EQ(sources[static_cast<std::size_t>(replica_peers[rank])], static_cast<int>(rank));
    }
  }
  EXPECT_EQ(ReplicaPeersOf({}, 3), (std::vector<int>{1, 2, 0}));
}

TEST(RowPlan, TakesRowsFromWhereTheyNeedTheFewestReplays) {
  const std::vector<std::vector<HeldRows>> held{
      {{.range = {0, 10}}, {.range = {20, 30}, .replays = 7, .block = 1}},
      {{.range = {10, 18}}, {.range = {0, 30}, .replays = 9, .block = 2}},
      {{.range = {25, 30}, .replays = 3, .block = 4}},
  };

  const RowPlan plan = PlanRows(held, 33);

  EXPECT_EQ(plan.sources, (std::vector<RowSource>{{{0, 10}, 0, 0},
                                                  {{10, 18}, 1, 0},
                                                  {{18, 20}, 1, 2},
                                                  {{20, 25}, 0, 1},
                                                  {{25, 30}, 2, 4}}));
  EXPECT_EQ(plan.lost, (std::vector<ClassRange>{{30, 33}}));
  EXPECT_EQ(Describe(plan.lost), "rows 30 to 32");
}

// A world whose other ranks do not answer.
class Unanswered final : public CommunicatorWrapper {
 public:
  explicit Unanswered(Communicator& inner) : CommunicatorWrapper(inner) {}
  WorkHandle AllGather(std::span<const std::byte>, std::span<std::byte>,
                       Deadline deadline) override {
    auto work = std::make_shared<Work>(deadline);
    work->Complete(Error{ErrorKind::kUnavailable, "a rank did not answer"});
    return work;
  }
};

// Otherwise ranks that read at different speeds would all read again in every world.
TEST(CentreTable, RowsThatWereReadAreKeptThoughTheWorldEndsBeforeAllRanksHaveRead) {
  HeadOptions head;
  head.classes = 4;
  head.dimension = 2;
  CentreTable table({.head = head});
  LoopbackCommunicator alone;
  Unanswered unanswered(alone);
  const World world;
  int reads = 0;
  const auto sync = [&](Communicator& communicator) {
    return table.Sync({.communicator = communicator,
                       .world = world,
                       .adopted = {.version = {{1, 1}, 7}, .origin = StateOrigin::kCheckpoint},
                       .load = [&](const StateVersion&, int64_t, int64_t, std::span<float> values) {
                         ++reads;
                         std::ranges::fill(values, 3.0F);
                         return Result<void>();
                       }});
  };

  EXPECT_FALSE(sync(unanswered).ok());
  const auto synced = sync(alone);

  ASSERT_TRUE(synced.ok()) << synced.error().message;
  EXPECT_EQ(synced->lost, "");
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(table.view().values[0], 3);
}

TEST(RowPlan, WithoutAnybodyAllIsLost) {
  const std::vector<std::vector<HeldRows>> held(3);

  EXPECT_EQ(PlanRows(held, 5).lost, (std::vector<ClassRange>{{0, 5}}));
}

// Receives copies of rows whose values depend on the step.
void Receive(Copies& copies, ClassRange source, int64_t step) {
  const ClassRange rows = copies.next().RowsOf(source, copies.every());
  const std::vector<float> values(static_cast<std::size_t>(rows.size() * 2),
                                  static_cast<float>(step));
  copies.Received(rows, values, {.epoch = {1, 1}, .step = step}, 1);
}

TEST(Copies, HurryUntilTheyAreCompleteAndThenGoRound) {
  const ClassRange source{100, 120};
  Copies copies(10);
  copies.Enter(source, /*as_initialised=*/false);
  int64_t step = 5;
  while (!copies.complete()) Receive(copies, source, step++);

  EXPECT_EQ(step, 9) << "four pieces at once: three exchanges, and one to know that all have them";
  EXPECT_EQ(copies.Oldest({.epoch = {1, 1}, .step = 100}).step, 5);
  for (int i = 1; i < 10; ++i) Receive(copies, source, step++);
  EXPECT_EQ(copies.Oldest({.epoch = {1, 1}, .step = 100}).step, 8) << "each piece once more";
  int64_t rows = 0;
  for (const Block* block : copies.blocks()) {
    EXPECT_EQ(block->rows.centre(block->range.begin)[0], static_cast<float>(block->version.step));
    rows += block->range.size();
  }
  EXPECT_EQ(rows, source.size());
}

TEST(Copies, OfTheWorldBeforeStayUntilThoseOfThisOneAreComplete) {
  Copies copies(4);
  copies.Enter({0, 8}, /*as_initialised=*/true);
  EXPECT_TRUE(copies.complete());
  Receive(copies, {0, 8}, 3);

  copies.Enter({8, 12}, /*as_initialised=*/false);
  EXPECT_FALSE(copies.complete());
  EXPECT_EQ(copies.blocks().size(), 4U);
  EXPECT_EQ(copies.Oldest({.epoch = {1, 1}, .step = 9}), StateVersion{});
  Receive(copies, {8, 12}, 9);
  EXPECT_FALSE(copies.complete()) << "another rank may have missed the end of that step";
  EXPECT_EQ(copies.blocks().size(), 8U);
  Receive(copies, {8, 12}, 10);

  EXPECT_TRUE(copies.complete());
  EXPECT_EQ(copies.blocks().size(), 4U);
  EXPECT_EQ(copies.Oldest({.epoch = {1, 1}, .step = 20}).step, 9);
}

TEST(Copies, OfTheSameRowsOnlyTheNewestIsKept) {
  Copies copies(8);
  for (int64_t world = 1; world <= 5; ++world) {
    copies.Enter({0, 80}, /*as_initialised=*/false);
    Receive(copies, {0, 80}, world);
    copies.Enter({80, 100}, /*as_initialised=*/false);
  }

  EXPECT_EQ(copies.blocks().size(), 4U);
  EXPECT_EQ(copies.Oldest({.epoch = {1, 1}, .step = 9}).step, 5);
}

}  // namespace
}  // namespace ringmaster::trainer::partial_fc
