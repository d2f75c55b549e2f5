// Tests the whole trainer with sharded class centres: it learns, and the losses do not depend on
// the size of the world, for all sample rates.

#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/training_world.h"
#include "worker/trainer/workloads/partial_fc.h"
#include "worker/trainer/world_sources/static/static_membership.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kCurveSteps = 60;
constexpr int64_t kCurveBatch = 12;

struct ShardedCurve {
  std::vector<double> losses;
  double accuracy = 0;
};

std::unique_ptr<Workload> CurveWorkload(double sample_rate, const std::string& backbone,
                                        const SgdOptions& sgd) {
  partial_fc::HeadOptions head;
  head.dimension = 16;
  head.sampling = {.seed = 3, .rate = sample_rate};
  head.margin = {.m2 = 0.2F, .scale = 16};
  head.learning_rate = [sgd](int64_t step) { return RateAt(sgd, step); };
  return MakePartialFc(SyntheticIdentities({.seed = 3,
                                            .classes = 40,
                                            .training = 240,
                                            .held_out = 80,
                                            .shape = {.channels = 3, .side = 28}}),
                       {.seed = 3,
                        .global_batch = kCurveBatch,
                        .backbone = backbone,
                        .table = {.head = head, .replica_every = 7}});
}

ShardedCurve TrainSharded(int size, double sample_rate, const std::string& backbone, int64_t steps,
                          int64_t micro_batch = 0) {
  std::mutex mutex;
  ShardedCurve curve;
  RunRanks(size, [&](const World& world) {
    SgdOptions sgd{.learning_rate = 0.003, .momentum = 0.9, .total_steps = steps};
    const auto workload = CurveWorkload(sample_rate, backbone, sgd);
    sgd.averages = workload->averages();
    SystemClock clock;
    AbandonedConnects abandoned_connects;
    AuditLog audit;
    const auto membership = MakeStaticMembership(world, world.store);
    Buckets buckets(workload->parameters(),
                    {.first_bytes = 1 << 10, .bytes = 4 << 10, .averages = workload->averages()});
    Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(), sgd);
    Session session(*membership, TestCommunicators(abandoned_connects), buckets, optimizer.state(),
                    audit, clock,
                    {.global_batch = kCurveBatch,
                     .micro_batch = micro_batch,
                     .timeout = std::chrono::seconds(60),
                     .sharded = workload->sharded()});
    const Result<void> joined = session.Join();
    ASSERT_TRUE(joined.ok()) << joined.error().message;
    for (int64_t step = 0; step < steps; ++step) {
      const MicroBatches parts = session.micro_batches();
      workload->Load(step, parts);
      session.Begin();
      for (int64_t part = 1; part < parts.count(); ++part) session.ExpectAnotherBackward();
      const Result<double> loss = workload->Forward(session.collectives());
      ASSERT_TRUE(loss.ok()) << loss.error().message;
      session.SetLoss(*loss);
      ASSERT_TRUE(workload->Backward(session.collectives()).ok());
      const auto reduced = session.Reduce();
      ASSERT_TRUE(reduced.happened());
      optimizer.Step(step);
      ASSERT_TRUE(session.Applied({}).ok());
      if (world.rank == 0) curve.losses.push_back(reduced->loss);
    }
    const Evaluation measured =
        workload->Evaluate(ShareOf(world.rank, world.size, workload->held_out_size()));
    const std::lock_guard lock(mutex);
    curve.accuracy +=
        static_cast<double>(measured.correct) / static_cast<double>(workload->held_out_size());
  });
  return curve;
}

TEST(ShardedCurve, IsTheSameInMicroBatches) {
  at::set_num_threads(1);
  const ShardedCurve whole = TrainSharded(1, 0.3, "small", kCurveSteps);
  for (const int size : {1, 2, 3}) {
    const ShardedCurve pieces =
        TrainSharded(size, 0.3, "small", kCurveSteps, /*micro_batch=*/size == 3 ? 3 : 5);

    ASSERT_EQ(pieces.losses.size(), whole.losses.size());
    for (std::size_t i = 0; i < whole.losses.size(); ++i) {
      EXPECT_NEAR(pieces.losses[i] / whole.losses[i], 1, 1e-4)
          << "step " << i + 1 << " with " << size << " ranks";
    }
  }
}

TEST(ShardedCurve, IsTheSameForOneTwoAndThreeRanksAtEverySampleRate) {
  at::set_num_threads(1);
  for (const double rate : {1.0, 0.3}) {
    const ShardedCurve alone = TrainSharded(1, rate, "small", kCurveSteps);
    ASSERT_EQ(alone.losses.size(), static_cast<std::size_t>(kCurveSteps));
    const double end = std::accumulate(alone.losses.end() - 10, alone.losses.end(), 0.0) / 10;
    EXPECT_LT(end, 0.7 * alone.losses.front()) << "it does not learn at rate " << rate;
    EXPECT_GT(alone.accuracy, 0.8);

    for (const int size : {2, 3}) {
      const ShardedCurve together = TrainSharded(size, rate, "small", kCurveSteps);

      ASSERT_EQ(together.losses.size(), alone.losses.size());
      for (std::size_t i = 0; i < alone.losses.size(); ++i) {
        EXPECT_NEAR(together.losses[i] / alone.losses[i], 1, 1e-4)
            << "step " << i + 1 << " with " << size << " ranks at rate " << rate;
      }
      EXPECT_NEAR(together.accuracy, alone.accuracy, 0.026) << size;  // 2 of 80 triplets may differ
    }
  }
}

TEST(ShardedCurve, AnIResNetTrainsWithItsStatisticsOnTwoRanks) {
  at::set_num_threads(1);

  const ShardedCurve curve = TrainSharded(2, 0.5, "r18", 4);

  ASSERT_EQ(curve.losses.size(), 4U);
  for (const double loss : curve.losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_GT(curve.accuracy, 0.4) << "evaluation uses the running statistics";
}

}  // namespace
}  // namespace ringmaster::trainer
