#include "worker/trainer/workloads/mnist.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/idx_files.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/workloads/partial_fc.h"

namespace ringmaster::trainer {
namespace {

constexpr uint64_t kMnistSeed = 11;
constexpr int64_t kMnistBatch = 24;

// Returns the sum of the losses of the loaded samples.
double LossOf(Workload& workload) {
  LoneCollectives alone;
  return *workload.Forward(alone);
}

std::unique_ptr<Workload> Make(double dropout = 0.5, uint64_t seed = kMnistSeed) {
  return MakeMnist(GeneratedDigits(seed, 200, 50),
                   {.seed = seed, .global_batch = kMnistBatch, .dropout = dropout});
}

std::vector<at::Tensor> Gradients(Workload& workload, int64_t step,
                                  const std::vector<Share>& shares) {
  for (at::Tensor& parameter : workload.parameters())
    parameter.mutable_grad() = at::zeros_like(parameter);
  for (const Share& share : shares) {
    workload.Load(step, share);
    LoneCollectives alone;
    EXPECT_TRUE(workload.Forward(alone).ok());
    EXPECT_TRUE(workload.Backward(alone).ok());
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : workload.parameters())
    gradients.push_back(parameter.grad().clone());
  return gradients;
}

TEST(Mnist, IsTheNetworkOfTheExamples) {
  int64_t count = 0;
  for (const at::Tensor& parameter : Make()->parameters()) count += parameter.numel();

  EXPECT_EQ(count, 21'840);
}

// Ranks and checkpoints use the same data only if all pixels are the same.
TEST(Workload, ItsFingerprintDetectsOneChangedPixel) {
  const auto fingerprints = [](char pixel) {
    const TemporaryFolder folder;
    const std::string other(kImagePixels, '\x09');
    for (const char* half : {"train", "t10k"}) {
      std::string pixels = half == std::string("train") ? other + other : other;
      if (half == std::string("train")) pixels[kImagePixels + 3] = pixel;
      const auto count = static_cast<uint32_t>(pixels.size() / kImagePixels);
      folder.Write(std::string(half) + "-images-idx3-ubyte",
                   IdxImageBytes(count, kImageSide, kImageSide, pixels));
      folder.Write(std::string(half) + "-labels-idx1-ubyte",
                   IdxLabelBytes(count, std::string(count, '\3')));
    }
    auto digits = LoadIdxFolder(folder.path());
    auto labelled = LoadIdxFolder(folder.path());
    EXPECT_TRUE(digits.ok() && labelled.ok());
    PartialFcOptions options;
    options.backbone = "small";
    return std::array{MakeMnist(*std::move(digits), {})->fingerprint(),
                      MakePartialFc(LabelledDigits(*std::move(labelled)), options)->fingerprint()};
  };

  EXPECT_EQ(fingerprints('\x07'), fingerprints('\x07'));
  EXPECT_NE(fingerprints('\x07')[0], fingerprints('\x17')[0]);
  EXPECT_NE(fingerprints('\x07')[1], fingerprints('\x17')[1]);
}

TEST(Mnist, StartsFromTheSeedAlone) {
  EXPECT_TRUE(at::equal(Make()->parameters()[4], Make()->parameters()[4]));
  EXPECT_FALSE(at::equal(Make()->parameters()[4], Make(0.5, kMnistSeed + 1)->parameters()[4]));
}

// Dropout is included: it depends only on the sample and not on the rank that computes it.
TEST(Mnist, SharesAddUpToTheGlobalBatch) {
  const auto workload = Make();

  const auto whole = Gradients(*workload, 3, {{0, kMnistBatch}});
  const auto parts = Gradients(*workload, 3, {{0, 8}, {8, 9}, {9, kMnistBatch}});

  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LT((whole[i] - parts[i]).abs().max().item<float>(),
              1e-5 * (1 + whole[i].abs().max().item<float>()))
        << i;
  }
}

TEST(Mnist, MicroBatchesAddUpToTheShare) {
  const auto workload = Make();
  const auto compute = [&](int64_t micro_batch) {
    for (at::Tensor& parameter : workload->parameters())
      parameter.mutable_grad() = at::zeros_like(parameter);
    workload->Load(3, MicroBatches(Share{4, kMnistBatch}, micro_batch));
    double loss = 0;
    for (int repeat = 0; repeat < 2; ++repeat) {  // as if the first gradients were not finite
      loss = LossOf(*workload);
      LoneCollectives alone;
      EXPECT_TRUE(workload->Backward(alone).ok());
    }
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : workload->parameters())
      gradients.push_back(parameter.grad().clone());
    return std::pair(loss, std::move(gradients));
  };

  const auto [loss, whole] = compute(0);
  for (const int64_t micro_batch : {1, 7, 10}) {
    const auto [same_loss, pieces] = compute(micro_batch);

    EXPECT_NEAR(same_loss / loss, 1, 1e-5) << micro_batch;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_LT((whole[i] - pieces[i]).abs().max().item<float>(),
                1e-5 * (1 + whole[i].abs().max().item<float>()))
          << i << " in micro-batches of " << micro_batch;
    }
  }
}

// Gradients agree to about eight bits, unless rounding selects another pixel in a pool.
TEST(Mnist, InBFloat16GradientsAreThoseOfFloatsNearly) {
  const auto exact = Make(0);
  const auto narrow =
      MakeMnist(GeneratedDigits(kMnistSeed, 200, 50), {.seed = kMnistSeed,
                                                       .global_batch = kMnistBatch,
                                                       .dropout = 0,
                                                       .precision = Precision::kBFloat16});

  const auto wanted = Gradients(*exact, 3, {{0, kMnistBatch}});
  const auto got = Gradients(*narrow, 3, {{0, kMnistBatch}});

  bool differs = false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(got[i].scalar_type(), at::kFloat);
    const double distance = (got[i] - wanted[i]).norm().item<double>();
    EXPECT_LT(distance, 0.35 * wanted[i].norm().item<double>()) << i;
    differs = differs || distance > 0;
  }
  EXPECT_TRUE(differs) << "it computed in float";
}

TEST(Mnist, AScaledLossHasScaledGradients) {
  const auto scale = std::make_shared<LossScale>(at::kCPU);
  const auto plain = Make();
  const auto scaled =
      MakeMnist(GeneratedDigits(kMnistSeed, 200, 50),
                {.seed = kMnistSeed, .global_batch = kMnistBatch, .loss_scale = scale});

  const auto wanted = Gradients(*plain, 3, {{0, kMnistBatch}});
  const auto got = Gradients(*scaled, 3, {{0, kMnistBatch}});

  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::allclose(got[i], wanted[i] * LossScale::kFirst, 1e-5, 1e-3)) << i;
  }
  scaled->Load(3, Share{0, kMnistBatch});
  plain->Load(3, Share{0, kMnistBatch});
  EXPECT_EQ(LossOf(*scaled), LossOf(*plain)) << "the loss itself is told as it is";
}

TEST(Mnist, MovesASampleTheSameWayOnEveryRank) {
  const auto moved =
      MakeMnist(GeneratedDigits(kMnistSeed, 200, 50),
                {.seed = kMnistSeed, .global_batch = kMnistBatch, .dropout = 0, .max_shift = 3});
  const auto loss = [](Workload& w, Share share) {
    w.Load(4, share);
    return LossOf(w);
  };

  const double whole = loss(*moved, {0, kMnistBatch});

  EXPECT_NEAR(whole, loss(*moved, {0, 7}) + loss(*moved, {7, kMnistBatch}), 1e-3);
  EXPECT_NE(whole, loss(*Make(0), {0, kMnistBatch}));
}

TEST(Mnist, DropsOtherUnitsEveryStep) {
  const auto workload = Make();
  const auto sure = Make(0);
  const auto loss = [](Workload& w, int64_t step) {
    w.Load(step, Share{0, kMnistBatch});
    return LossOf(w);
  };

  EXPECT_EQ(loss(*workload, 5), loss(*workload, 5));
  EXPECT_NE(loss(*workload, 5), loss(*sure, 5));
}

// Compares the workload with an independent copy of the layers that uses LibTorch's loss.
TEST(Mnist, LossIsTheSumOfTheSamplesCrossEntropy) {
  const auto workload = Make(0);
  const auto p = workload->parameters();
  const Dataset data = GeneratedDigits(kMnistSeed, 200, 50);
  at::Tensor input = at::empty({kMnistBatch, 1, 28, 28});
  at::Tensor target = at::empty({kMnistBatch}, at::kLong);
  for (int64_t i = 0; i < kMnistBatch; ++i) {
    const int64_t sample = workload->order().SampleAt(2, i);
    for (int64_t pixel = 0; pixel < kImagePixels; ++pixel) {
      input[i][0][pixel / 28][pixel % 28] =
          (data.training->Image(sample)[pixel] / 255.0 - 0.1307) / 0.3081;
    }
    target[i] = data.training->Label(sample);
  }
  at::Tensor x = at::max_pool2d(at::relu(at::conv2d(input, p[0], p[1])), 2);
  x = at::max_pool2d(at::relu(at::conv2d(x, p[2], p[3])), 2).reshape({kMnistBatch, 320});
  x = at::linear(at::relu(at::linear(x, p[4], p[5])), p[6], p[7]);
  const double expected = at::cross_entropy_loss(x, target, {}, at::Reduction::Sum).item<double>();

  workload->Load(2, Share{0, kMnistBatch});

  EXPECT_NEAR(LossOf(*workload), expected, 1e-3);
}

TEST(Mnist, EvaluationAddsUpOverShares) {
  const auto workload = Make();

  const Evaluation whole = workload->Evaluate({0, 50});
  const Evaluation first = workload->Evaluate({0, 17});
  const Evaluation rest = workload->Evaluate({17, 50});

  EXPECT_EQ(whole.correct, first.correct + rest.correct);
  EXPECT_NEAR(whole.loss_sum, first.loss_sum + rest.loss_sum, 1e-3);
}

}  // namespace
}  // namespace ringmaster::trainer
