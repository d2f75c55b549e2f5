#include "worker/trainer/elastic_torch/session.h"

#include <array>
#include <memory>
#include <span>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/communicator_wrapper.h"
#include "tests/unit/trainer/fake_checkpointer.h"
#include "tests/unit/trainer/training_world.h"
#include "worker/trainer/elastic_torch/tensor_state.h"

namespace ringmaster::trainer {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSessionSeed = 3;

// Runs one step of a rank, up to and including the reduction.
Outcome<StepResult> ReduceOneStep(TestRank& rank) {
  rank.workload->Load(0, rank.session.share());
  rank.session.Begin();
  const Result<double> loss = rank.workload->Forward(rank.session.collectives());
  if (!loss.ok()) return loss.error();
  rank.session.SetLoss(*loss);
  const Result<void> computed = rank.workload->Backward(rank.session.collectives());
  if (!computed.ok()) return computed.error();
  return rank.session.Reduce();
}

TEST(Session, DividesGradientsByTheGlobalBatchOnce) {
  constexpr int64_t kSessionBatch = 6;
  TestRank alone(World{}, kSessionBatch, kSessionSeed);
  ASSERT_TRUE(alone.session.Join().ok());

  const auto reduced = ReduceOneStep(alone);

  ASSERT_TRUE(reduced.happened());
  const at::Tensor mean = alone.buckets.flat_gradients().clone();
  alone.buckets.Arm([](int) {});
  alone.workload->Load(0, Share{0, kSessionBatch});
  LoneCollectives nobody;
  EXPECT_NEAR(reduced->loss, *alone.workload->Forward(nobody) / kSessionBatch, 1e-6);
  EXPECT_TRUE(alone.workload->Backward(nobody).ok());
  EXPECT_TRUE(at::allclose(mean, alone.buckets.flat_gradients() / kSessionBatch, 1e-6, 1e-8));
}

TEST(Session, AMicroBatchIsTheShareWithAllRanksThatTheJobWants) {
  const auto micro_batches = [](int full_size, int64_t given) {
    World world;
    world.full_size = full_size;
    TestRank rank(world, 7, kSessionSeed, {}, 0, Compression::kNone, nullptr, given);
    EXPECT_TRUE(rank.session.Join().ok());
    return std::pair(rank.session.micro_batch(), rank.session.micro_batches().count());
  };

  EXPECT_EQ(micro_batches(0, 0), std::pair(int64_t{7}, int64_t{1})) << "nobody says";
  EXPECT_EQ(micro_batches(1, 0), std::pair(int64_t{7}, int64_t{1}));
  EXPECT_EQ(micro_batches(3, 0), std::pair(int64_t{3}, int64_t{3}));
  EXPECT_EQ(micro_batches(3, 5), std::pair(int64_t{5}, int64_t{2}));
}

TEST(Session, ComputingMayAskTheOtherRanks) {
  RunRanks(3, [&](const World& world) {
    TestRank rank(world, 6, kSessionSeed);
    ASSERT_TRUE(rank.session.Join().ok());
    rank.session.Begin();
    StepCollectives& others = rank.session.collectives();
    std::vector<float> largest{static_cast<float>(world.rank)};
    std::array<int, 3> ranks{};

    ASSERT_TRUE(others.AllReduce(std::span(largest), ReduceOp::kMax).ok());
    ASSERT_TRUE(others
                    .AllGather(std::as_bytes(std::span(&world.rank, 1)),
                               std::as_writable_bytes(std::span(ranks)))
                    .ok());

    EXPECT_EQ(largest[0], 2);
    EXPECT_THAT(ranks, ::testing::ElementsAre(0, 1, 2));
    EXPECT_FALSE(rank.session.step_broken());
    EXPECT_TRUE(rank.session.Reduce().happened());
  });
}

// A communicator whose reductions end only after Confirm() is called.
class ConfirmedFirst final : public CommunicatorWrapper {
 public:
  ConfirmedFirst() : CommunicatorWrapper(alone_) {}
  WorkHandle AllReduce(Elements, ReduceOp, Deadline deadline) override {
    return works_.emplace_back(std::make_shared<Work>(deadline));
  }
  WorkHandle Confirm(Deadline deadline) override {
    for (const WorkHandle& work : works_) work->Complete({});
    works_.clear();
    return inner().Confirm(deadline);
  }

 private:
  LoopbackCommunicator alone_;
  std::vector<WorkHandle> works_;
};

TEST(Session, WhatIsConfirmedIsNotWaitedForBefore) {
  const auto membership = MakeStaticMembership(World{}, nullptr);
  Buckets buckets({at::ones({8}).requires_grad_(true)}, {});
  const TensorState state({buckets.flat_parameters()});
  AuditLog audit;
  const SystemClock clock;
  Session session(*membership,
                  [](const World&, Deadline) -> Result<std::unique_ptr<Communicator>> {
                    return std::unique_ptr<Communicator>(new ConfirmedFirst());
                  },
                  buckets, state.view(), audit, clock, {.timeout = std::chrono::seconds(3)});
  ASSERT_TRUE(session.Join().ok());
  session.Begin();
  std::vector<float> values(1);

  EXPECT_TRUE(session.collectives().AllReduce(std::span(values), ReduceOp::kSum).ok());
  EXPECT_TRUE(session.Reduce().happened());
  ASSERT_TRUE(session.Applied({}).ok());
  EXPECT_TRUE(session.Sum(values).happened());
}

TEST(Session, AStepWhoseComputingLosesAPeerDoesNotHappen) {
  RunRanks(2, [&](const World& world) {
    TestRank rank(world, 4, kSessionSeed);
    ASSERT_TRUE(rank.session.Join().ok());
    if (world.rank == 1) return;  // leaves the world
    rank.session.Begin();
    std::vector<float> values(1);

    EXPECT_FALSE(rank.session.collectives().AllReduce(std::span(values), ReduceOp::kSum).ok());

    EXPECT_TRUE(rank.session.step_broken());
    const auto reduced = rank.session.Reduce();
    ASSERT_TRUE(reduced.failed());  // a next world never forms
    EXPECT_EQ(rank.session.end(), SessionEnd::kPeerLost);
    EXPECT_EQ(rank.session.applied_steps(), 0);
  });
}

TEST(Session, ARankWithoutSamplesTakesPart) {
  constexpr int64_t kSessionBatch = 2;  // three ranks: the shares are 0, 1 and 1
  std::vector<at::Tensor> gradients(3);
  RunRanks(3, [&](const World& world) {
    TestRank rank(world, kSessionBatch, kSessionSeed);
    ASSERT_TRUE(rank.session.Join().ok());
    const auto reduced = ReduceOneStep(rank);
    ASSERT_TRUE(reduced.happened());
    gradients[static_cast<std::size_t>(world.rank)] = rank.buckets.flat_gradients().clone();
  });

  EXPECT_EQ(ShareOf(0, 3, kSessionBatch).size(), 0);
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
  EXPECT_TRUE(at::equal(gradients[0], gradients[2]));
  EXPECT_GT(gradients[0].abs().sum().item<float>(), 0);
}

// Only the first rank of each worker decides whether a snapshot is due.
TEST(Session, ASnapshotIsOfAStepInWhichOneIsDueOnAllWorkers) {
  struct Place {
    int worker;
    int local_rank;
    std::vector<bool> due;  // in each step
  };
  const std::array<Place, 3> places{
      {{0, 0, {true, true, true, false}}, {1, 0, {false, false, true, true}}, {1, 1, {}}}};
  RunRanks(3, [&](World world) {
    const Place& place = places[static_cast<std::size_t>(world.rank)];
    world.local_rank = place.local_rank;
    world.workers = 2;
    FakeCheckpointer kept;
    TestRank rank(world, 6, kSessionSeed, {}, 0, Compression::kNone, &kept);
    ASSERT_TRUE(rank.session.Join().ok());

    for (std::size_t step = 0; step < 4; ++step) {
      kept.snapshot_due = place.local_rank > 0 || place.due[step];
      ASSERT_TRUE(ReduceOneStep(rank).happened());
      ASSERT_TRUE(rank.session.Applied({}).ok());
    }

    EXPECT_THAT(kept.snapshots, ::testing::ElementsAre(3));
  });
}

TEST(Session, APartThatOneRankCannotWriteIsKnownToAllRanks) {
  RunRanks(3, [&](const World& world) {
    FakeCheckpointer kept;
    TestRank rank(world, 6, kSessionSeed, {}, 0, Compression::kNone, &kept);
    ASSERT_TRUE(rank.session.Join().ok());
    const StateVersion due{world.epoch, 1};

    for (const bool one_fails : {true, false}) {
      const bool fails = one_fails && world.rank == 1;
      kept.part_failed = fails;
      kept.part_written = fails ? std::nullopt : std::optional(due);
      ASSERT_TRUE(ReduceOneStep(rank).happened());
      ASSERT_TRUE(rank.session.Applied({}).ok());

      EXPECT_EQ(kept.parts_failed, 1);
      EXPECT_EQ(kept.parts_written, one_fails ? 0 : 1);
    }
  });
}

// The rows of a rank that has none.
class NoRows final : public ShardedState {
 public:
  Result<ShardedOutcome> Sync(const ShardedWorld&) override { return ShardedOutcome{}; }
  void Exclude() override {}
  void Applied(const LocalState&) override {}
  Result<void> HandOver(Communicator&, bool, std::chrono::milliseconds) override { return {}; }
  int64_t all_rows() const override { return 0; }
  ShardView view() const override { return {}; }
  uint64_t checksum() const override { return 0; }
};

TEST(Session, TheLastCheckpointHasThePartsOfRanksThatWriteSlowly) {
  RunRanks(3, [&](const World& world) {
    FakeCheckpointer kept;
    NoRows rows;
    TestRank rank(world, 6, kSessionSeed, {}, 0, Compression::kNone, &kept, 0, &rows);
    ASSERT_TRUE(rank.session.Join().ok());
    ASSERT_TRUE(ReduceOneStep(rank).happened());
    ASSERT_TRUE(rank.session.Applied({}).ok());
    kept.part_written = StateVersion{rank.session.world().epoch, 1};
    kept.unfinished_looks = 3 * world.rank;

    EXPECT_TRUE(rank.session.Finish({}).happened());

    EXPECT_EQ(kept.asked_to_finish, 7) << "ranks wait together for the slowest one";
    EXPECT_EQ(kept.parts_written, 1);
  });
}

TEST(Session, RefusesRanksWithOtherParameters) {
  RunRanks(2, [&](const World& world) {
    TestRank rank(world, 4, kSessionSeed + static_cast<uint64_t>(world.rank));

    const Result<void> joined = rank.session.Join();

    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(joined.error().message, HasSubstr("different parameters"));
    EXPECT_THAT(joined.error().message, HasSubstr("rank 1"));
  });
}

TEST(Session, RefusesRanksWithOtherFlags) {
  RunRanks(2, [&](const World& world) {
    TestRank rank(world, 4, kSessionSeed, {}, static_cast<uint64_t>(world.rank));

    const Result<void> joined = rank.session.Join();

    ASSERT_FALSE(joined.ok());
    EXPECT_THAT(joined.error().message, HasSubstr("other flags or other data"));
  });
}

TEST(Session, ALostPeerFailsTheStepAndLeavesTheParameters) {
  RunRanks(2, [&](const World& world) {
    TestRank rank(world, 4, kSessionSeed);
    ASSERT_TRUE(rank.session.Join().ok());
    if (world.rank == 1) return;
    const at::Tensor before = rank.buckets.flat_parameters().clone();

    const auto reduced = ReduceOneStep(rank);

    ASSERT_TRUE(reduced.failed());
    EXPECT_THAT(reduced.error().message, HasSubstr("reducing step 1"));
    EXPECT_TRUE(at::equal(before, rank.buckets.flat_parameters()));
    EXPECT_EQ(rank.session.end(), SessionEnd::kPeerLost);
    EXPECT_EQ(rank.session.applied_steps(), 0);
  });
}

TEST(RateAt, FallsFromTheLearningRateTowardsZero) {
  const SgdOptions cosine{
      .learning_rate = 0.1, .momentum = 0, .schedule = RateSchedule::kCosine, .total_steps = 10};
  const SgdOptions constant{
      .learning_rate = 0.1, .momentum = 0, .schedule = RateSchedule::kConstant, .total_steps = 10};

  EXPECT_DOUBLE_EQ(RateAt(cosine, 0), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(cosine, 5), 0.05);
  EXPECT_LT(RateAt(cosine, 9), 0.003);
  EXPECT_DOUBLE_EQ(RateAt(constant, 9), 0.1);
}

}  // namespace
}  // namespace ringmaster::trainer
