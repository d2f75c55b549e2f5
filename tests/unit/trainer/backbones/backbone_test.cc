// Tests backbones: shapes, lists of parameters, and the running statistics.

#include "worker/trainer/backbones/backbone.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/trainer/backbones/layers.h"
#include "worker/trainer/optim/sgd.h"

namespace ringmaster::trainer {
namespace {

int64_t CountOf(const std::vector<NamedTensor>& tensors) {
  int64_t values = 0;
  for (const NamedTensor& named : tensors) values += named.tensor.numel();
  return values;
}

TEST(Backbone, R18HasTheSizesOfArcFacesNetwork) {
  const auto r18 = MakeBackbone("r18", {.shape = {.channels = 3, .side = 112}, .dimension = 512});

  // The number of parameters of arcface_torch's iresnet18 with 512 features.
  EXPECT_EQ(CountOf(r18->parameters()), 24'025'600);
  EXPECT_EQ(r18->parameters().front().name, "conv1.weight");
  const at::Tensor embedding = r18->Forward(at::ones({1, 3, 112, 112}), false);
  EXPECT_EQ(embedding.sizes(), (std::vector<int64_t>{1, 512}));
}

TEST(Backbone, TakesSmallGreyImages) {
  for (const char* name : {"small", "r18"}) {
    const auto net = MakeBackbone(name, {.shape = {.channels = 1, .side = 28}, .dimension = 7});
    const at::Tensor images = at::arange(3 * 28 * 28, at::kFloat).reshape({3, 1, 28, 28}) / 1000;

    EXPECT_EQ(net->Forward(images, true).sizes(), (std::vector<int64_t>{3, 7})) << name;
  }
}

TEST(Backbone, StartsTheSameFromTheSameSeed) {
  const BackboneOptions options{.shape = {.channels = 1, .side = 28}, .dimension = 5, .seed = 4};
  const auto one = MakeBackbone("small", options);
  const auto same = MakeBackbone("small", options);
  BackboneOptions reseeded = options;
  reseeded.seed = 5;
  const auto other = MakeBackbone("small", reseeded);

  for (std::size_t i = 0; i < one->parameters().size(); ++i) {
    const NamedTensor& named = one->parameters()[i];
    EXPECT_TRUE(named.tensor.equal(same->parameters()[i].tensor)) << named.name;
    if (named.name.find("conv") != std::string::npos) {
      EXPECT_FALSE(named.tensor.equal(other->parameters()[i].tensor)) << named.name;
    }
  }
}

TEST(Backbone, InBFloat16ItsEmbeddingsAreThoseOfFloatsNearly) {
  BackboneOptions options{.shape = {.channels = 1, .side = 28}, .dimension = 16, .seed = 4};
  const at::Tensor images = at::arange(8 * 28 * 28, at::kFloat).reshape({8, 1, 28, 28}).sin();
  for (const char* name : {"small", "r18"}) {
    options.precision = Precision::kFloat32;
    const at::Tensor exact = MakeBackbone(name, options)->Forward(images, true);
    options.precision = Precision::kBFloat16;
    const auto narrow = MakeBackbone(name, options);
    const at::Tensor embeddings = narrow->Forward(images, true);

    EXPECT_EQ(embeddings.scalar_type(), at::kFloat);
    EXPECT_FALSE(at::equal(embeddings, exact)) << name << " computed in float";
    EXPECT_GT(at::cosine_similarity(embeddings, exact).min().item<float>(), 0.9) << name;
    embeddings.sum().backward();
    EXPECT_EQ(narrow->parameters().front().tensor.grad().scalar_type(), at::kFloat);
  }
}

TEST(BatchNorm, GivesItsStatisticsForTheOptimizerToMove) {
  Layers layers(BackboneOptions{.shape = {}, .seed = 1, .global_batch = 6});
  const BatchNorm normal = layers.MakeBatchNorm("bn", 2);
  for (const NamedTensor& average : layers.averages()) {
    at::Tensor tensor = average.tensor;
    tensor.mutable_grad() = at::zeros({2});
  }
  const at::Tensor x = at::tensor({1.0F, 10.0F, 3.0F, 30.0F, 5.0F, 20.0F}).reshape({3, 2});

  const at::Tensor y = normal(x, true);

  // Expects the statistics of three samples of a batch of six.
  EXPECT_TRUE(at::allclose(normal.mean.grad(), at::tensor({1.5F, 10.0F})));
  EXPECT_TRUE(at::allclose(normal.variance.grad(), at::tensor({2.0F, 50.0F}), 1e-3));
  EXPECT_NEAR(y.select(1, 0).sum().item<float>(), 0, 1e-5);
  // A single sample has no variance: the running statistics normalise it, and do not change.
  const at::Tensor lone = normal(x.narrow(0, 0, 1), true);
  EXPECT_NEAR(lone[0][1].item<float>(), 10, 1e-3);
  EXPECT_TRUE(at::allclose(normal.mean.grad(), at::tensor({1.5F, 10.0F})));
  EXPECT_TRUE(
      at::allclose(normal.variance.grad(), at::tensor({2.0F + 1.0F / 6, 50.0F + 1.0F / 6}), 1e-3));
}

TEST(BatchNorm, AddsUpTheStatisticsOfMicroBatches) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Layers layers(BackboneOptions{.shape = {}, .seed = 1, .global_batch = 6});
    const BatchNorm normal = layers.MakeBatchNorm("bn", 2);
    for (const NamedTensor& average : layers.averages()) {
      at::Tensor tensor = average.tensor;
      tensor.mutable_grad() = at::zeros({2});
    }
    const at::Tensor x = at::tensor({1.0F, 10.0F, 3.0F, 30.0F, 5.0F, 20.0F, 9.0F, 2.0F, 7.0F, 4.0F})
                             .reshape({5, 2})
                             .to(type);

    {
      const c10::AutoGradMode ahead(false);  // this pass computes only the output
      EXPECT_EQ(normal(x, true).sizes(), x.sizes());
    }
    EXPECT_EQ(normal.mean.grad().abs().sum().item<float>(), 0);
    normal(x.narrow(0, 0, 3), true).to(at::kFloat).sum().backward();
    normal(x.narrow(0, 3, 2), true).to(at::kFloat).sum().backward();

    // Expects the statistics of three samples plus those of two, of a batch of six.
    EXPECT_TRUE(at::allclose(normal.mean.grad(), at::tensor({1.5F + 8.0F / 3, 10.0F + 1}), 1e-3));
    EXPECT_TRUE(
        at::allclose(normal.variance.grad(), at::tensor({2 + 2.0F / 3, 50.0F + 2.0F / 3}), 1e-2))
        << normal.variance.grad();
  }
}

TEST(Sgd, MovesAveragesInsteadOfDescendingAlongThem) {
  const at::Tensor parameters = at::tensor({1.0F, 2.0F, 10.0F});
  const at::Tensor gradients = at::tensor({0.5F, 0.0F, 20.0F});
  Sgd sgd(parameters, gradients,
          {.learning_rate = 0.1,
           .momentum = 0,
           .schedule = RateSchedule::kConstant,
           .weight_decay = 0.5,
           .averages = 1});

  sgd.Step(0);

  EXPECT_TRUE(at::allclose(parameters, at::tensor({0.9F, 1.9F, 11.0F})));
}

TEST(Sgd, WarmsUpAndFallsAlongAParabola) {
  const SgdOptions options{.learning_rate = 1,
                           .schedule = RateSchedule::kPolynomial,
                           .total_steps = 14,
                           .warmup_steps = 4};

  EXPECT_DOUBLE_EQ(RateAt(options, 0), 0.25);
  EXPECT_DOUBLE_EQ(RateAt(options, 3), 1);
  EXPECT_DOUBLE_EQ(RateAt(options, 4), 1);
  EXPECT_DOUBLE_EQ(RateAt(options, 9), 0.25);
}

}  // namespace
}  // namespace ringmaster::trainer
