#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/trainer/temporary_folder.h"
#include "tests/unit/trainer/training_world.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kSteps = 100;
constexpr int64_t kBatch = 16;

struct Curve {
  std::vector<double> losses;
  double accuracy = 0;
};

// Trains a world of `size` ranks and reads rank 0's step log.
Curve TrainWorld(int size, Compression compression = Compression::kNone, int64_t micro_batch = 0) {
  const TemporaryFolder folder;
  RunRanks(size, [&](const World& world) {
    TestRank rank(world, kBatch, 3,
                  {.learning_rate = 0.05,
                   .momentum = 0.9,
                   .schedule = RateSchedule::kCosine,
                   .total_steps = kSteps},
                  /*fingerprint=*/0, compression, /*checkpointer=*/nullptr, micro_batch);
    auto log = StepLog::Open(world.rank == 0 ? folder.path() + "/log" : "none");
    ASSERT_TRUE(log.ok());
    const Result<void> joined = rank.session.Join();
    ASSERT_TRUE(joined.ok()) << joined.error().message;
    TrainPlan plan;
    plan.steps = kSteps;
    plan.global_batch = kBatch;

    const auto summary =
        Train(*rank.workload, rank.session, rank.optimizer, *log, rank.clock, plan);

    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_EQ(summary->steps, kSteps);
  });
  Curve curve;
  std::ifstream file(folder.path() + "/log");
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("step")) {
      EXPECT_EQ(json.at("step").get<std::size_t>(), curve.losses.size() + 1);
      curve.losses.push_back(json.at("loss").get<double>());
    } else {
      curve.accuracy = json.at("summary").at("accuracy").get<double>();
    }
  }
  return curve;
}

double EndOf(const Curve& curve) {
  return std::accumulate(curve.losses.end() - 10, curve.losses.end(), 0.0) / 10;
}

TEST(LossCurve, IsTheSameForOneTwoAndThreeRanks) {
  at::set_num_threads(1);
  const Curve alone = TrainWorld(1);
  ASSERT_EQ(alone.losses.size(), static_cast<std::size_t>(kSteps));
  EXPECT_LT(EndOf(alone), 0.7 * alone.losses.front()) << "it does not learn";

  for (const int size : {2, 3}) {
    const Curve together = TrainWorld(size);

    ASSERT_EQ(together.losses.size(), alone.losses.size());
    for (std::size_t i = 0; i < alone.losses.size(); ++i) {
      EXPECT_NEAR(together.losses[i] / alone.losses[i], 1, 1e-4)
          << "step " << i + 1 << " with " << size << " ranks";
    }
    EXPECT_NEAR(together.accuracy, alone.accuracy, 0.011) << size;  // one sample of 101 may differ
  }
}

TEST(LossCurve, MayBePlannedForMoreStepsThanMemoryCouldList) {
  RunRanks(1, [](const World& world) {
    constexpr int64_t kMany = int64_t{1} << 40;
    TestRank rank(world, kBatch, 3, {.learning_rate = 1e30, .total_steps = kMany});
    auto log = StepLog::Open("none");
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(rank.session.Join().ok());
    TrainPlan plan;
    plan.steps = kMany;
    plan.global_batch = kBatch;

    const auto summary =
        Train(*rank.workload, rank.session, rank.optimizer, *log, rank.clock, plan);

    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(summary.error().message, testing::HasSubstr("training diverged"));
  });
}

TEST(LossCurve, IsTheSameInMicroBatches) {
  at::set_num_threads(1);
  const Curve whole = TrainWorld(1);
  for (const int size : {1, 2, 3}) {
    const Curve pieces = TrainWorld(size, Compression::kNone, /*micro_batch=*/3);

    ASSERT_EQ(pieces.losses.size(), whole.losses.size());
    for (std::size_t i = 0; i < whole.losses.size(); ++i) {
      EXPECT_NEAR(pieces.losses[i] / whole.losses[i], 1, 1e-4)
          << "step " << i + 1 << " with " << size << " ranks";
    }
  }
}

// Tests only that training works; this test is too small to compare accuracies.
TEST(LossCurve, FallsUnderEveryCompressionAsWithoutIt) {
  at::set_num_threads(1);
  const Curve plain = TrainWorld(2);
  for (const Compression compression : {Compression::kFloat16, Compression::kBFloat16,
                                        Compression::kFloat8E4M3, Compression::kFloat8E5M2}) {
    const Curve narrow = TrainWorld(2, compression);

    EXPECT_NE(narrow.losses, plain.losses) << NameOf(compression) << ": nothing was compressed";
    EXPECT_EQ(narrow.losses.front(), plain.losses.front()) << NameOf(compression);
    EXPECT_NEAR(EndOf(narrow) / EndOf(plain), 1, 0.1) << NameOf(compression);
    EXPECT_NEAR(narrow.accuracy, plain.accuracy, 0.15) << NameOf(compression);  // 15 of 101 samples
  }
}

}  // namespace
}  // namespace ringmaster::trainer
