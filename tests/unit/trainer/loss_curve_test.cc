#include <ATen/Parallel.h>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

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

// Trains a world of `size` and reads the step log that rank 0 left.
Curve TrainWorld(int size) {
  const TemporaryFolder folder;
  RunRanks(size, [&](const World& world) {
    TestRank rank(world, kBatch, 3,
                  {.learning_rate = 0.05,
                   .momentum = 0.9,
                   .schedule = RateSchedule::kCosine,
                   .total_steps = kSteps});
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

TEST(LossCurve, IsTheSameForOneTwoAndThreeRanks) {
  at::set_num_threads(1);
  const Curve alone = TrainWorld(1);
  ASSERT_EQ(alone.losses.size(), static_cast<std::size_t>(kSteps));
  const double end = std::accumulate(alone.losses.end() - 10, alone.losses.end(), 0.0) / 10;
  EXPECT_LT(end, 0.7 * alone.losses.front()) << "it does not learn";

  for (const int size : {2, 3}) {
    const Curve together = TrainWorld(size);

    ASSERT_EQ(together.losses.size(), alone.losses.size());
    for (std::size_t i = 0; i < alone.losses.size(); ++i) {
      EXPECT_NEAR(together.losses[i] / alone.losses[i], 1, 1e-4)
          << "step " << i + 1 << " with " << size << " ranks";
    }
    EXPECT_NEAR(together.accuracy, alone.accuracy, 0.011) << size;  // one sample of 101
  }
}

}  // namespace
}  // namespace ringmaster::trainer
