// Tests batch normalisation with each compression: its running statistics must not be compressed.

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/training_world.h"
#include "worker/trainer/backbones/layers.h"
#include "worker/trainer/numeric/alignment.h"
#include "worker/trainer/world_sources/static/static_membership.h"

namespace ringmaster::trainer {
namespace {

constexpr int kNormalRanks = 2;
constexpr int64_t kNormalShare = 1024;  // samples per rank
constexpr int64_t kNormalBatch = kNormalRanks * kNormalShare;
constexpr int64_t kChannels = 3;
constexpr int64_t kAverages = 2 * AlignedCount(kChannels);
constexpr int kNormalSteps = 30;

// Returns values with a variance of 42, as in the widest layers of an untrained IResNet. The sum of
// the variances over this batch is too large for fp16.
at::Tensor NormalInput(int rank) {
  const at::Tensor places = at::arange(kNormalShare * kChannels, at::kFloat);
  return at::sin(places * static_cast<double>(rank + 1))
      .mul(std::sqrt(84.0))
      .add(40)
      .view({kNormalShare, kChannels});
}

// Trains, and returns the running means of the channels, then their running variances.
std::vector<float> TrainNormal(const World& world, Compression compression) {
  Layers layers(BackboneOptions{.shape = {}, .seed = 1, .global_batch = kNormalBatch});
  const BatchNorm normal = layers.MakeBatchNorm("bn", kChannels);
  const at::Tensor x = NormalInput(world.rank);
  const at::Tensor target = at::cos(x * 3);
  SystemClock clock;
  AbandonedConnects abandoned_connects;
  AuditLog audit;
  const auto membership = MakeStaticMembership(world, world.store);
  Buckets buckets({normal.variance, normal.mean, normal.weight, normal.bias},
                  {.first_bytes = 12, .bytes = 12, .averages = kAverages});
  Sgd optimizer(
      buckets.flat_parameters(), buckets.flat_gradients(),
      {.learning_rate = 0.01, .schedule = RateSchedule::kConstant, .averages = kAverages});
  const auto codec = MakeHostRowCodec(compression);
  const auto reducer = MakeCompressedGradients(codec.get(), buckets.gradient_counts());
  Session session(*membership, TestCommunicators(abandoned_connects), buckets, optimizer.state(),
                  audit, clock,
                  {.global_batch = kNormalBatch,
                   .timeout = std::chrono::seconds(60),
                   .reducer = reducer.get()});
  EXPECT_TRUE(session.Join().ok());
  for (int step = 0; step < kNormalSteps; ++step) {
    session.Begin();
    const at::Tensor loss = (normal(x, true) * target).sum();
    session.SetLoss(loss.item<double>());
    loss.backward();
    const auto reduced = session.Reduce();
    EXPECT_TRUE(reduced.happened());
    optimizer.Step(step);
    EXPECT_TRUE(session.Applied({}).ok());
  }
  const at::Tensor averages = at::cat({normal.mean.detach(), normal.variance.detach()});
  EXPECT_GT(normal.bias.abs().min().item<float>(), 0) << "it trains";
  return {averages.data_ptr<float>(), averages.data_ptr<float>() + averages.numel()};
}

class CompressedAveragesTest : public ::testing::TestWithParam<Compression> {};

TEST_P(CompressedAveragesTest, ArriveExactly) {
  RunRanks(kNormalRanks, [](const World& world) {
    const std::vector<float> averages = TrainNormal(world, GetParam());

    const double rest = std::pow(0.9, kNormalSteps);  // the weight of the initial statistics
    for (int64_t channel = 0; channel < kChannels; ++channel) {
      double mean = 0;
      double variance = 0;
      for (int rank = 0; rank < kNormalRanks; ++rank) {
        const at::Tensor x = NormalInput(rank).select(1, channel).to(at::kDouble);
        mean += x.mean().item<double>() / kNormalRanks;
        variance += x.var(/*unbiased=*/true).item<double>() / kNormalRanks;
      }
      const auto at = static_cast<std::size_t>(channel);
      EXPECT_NEAR(averages[at] / (mean * (1 - rest)), 1, 1e-5) << channel;
      EXPECT_NEAR(averages[at + kChannels] / (variance * (1 - rest) + rest), 1, 1e-5) << channel;
      EXPECT_GT(variance * kNormalBatch, 65'504) << "small enough for fp16";
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Every, CompressedAveragesTest,
                         ::testing::Values(Compression::kNone, Compression::kFloat16,
                                           Compression::kBFloat16, Compression::kFloat8E4M3,
                                           Compression::kFloat8E5M2),
                         [](const auto& param) {
                           std::string name = NameOf(param.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ringmaster::trainer
