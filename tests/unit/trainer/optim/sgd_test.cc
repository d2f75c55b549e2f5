#include "worker/trainer/optim/sgd.h"

#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worker/trainer/kernels/sgd_update.h"

namespace ringmaster::trainer {
namespace {

TEST(Sgd, TheKernelsArithmeticIsTheCpusToRounding) {
  at::manual_seed(1);
  const int64_t count = 1001;
  SgdOptions options{
      .learning_rate = 0.1, .momentum = 0.9, .total_steps = 10, .weight_decay = 0.01};
  options.loss_scale = std::make_shared<LossScale>(at::kCPU);
  const at::Tensor parameters = at::randn({count});
  const at::Tensor gradients = at::randn({count}) * LossScale::kFirst;
  at::Tensor kernel_parameters = parameters.clone();
  at::Tensor kernel_velocity = at::zeros({count});
  Sgd sgd(parameters, gradients, options);

  for (int64_t step = 0; step < 5; ++step) {
    sgd.Step(step);
    for (int64_t i = 0; i < count; ++i) {
      SgdElement(kernel_parameters.data_ptr<float>()[i], kernel_velocity.data_ptr<float>()[i],
                 gradients.data_ptr<float>()[i], LossScale::kFirst,
                 {.momentum = 0.9F,
                  .rate = static_cast<float>(RateAt(options, step)),
                  .weight_decay = 0.01F});
    }
  }

  // Allows a few units in the last place of numbers near one, which may cancel to almost zero.
  EXPECT_TRUE(at::allclose(parameters, kernel_parameters, 1e-6, 2e-6));
}

TEST(Sgd, OnACpuTheStateIsTheTensorsOwnMemory) {
  const at::Tensor parameters = at::randn({8});
  const Sgd sgd(parameters, at::zeros({8}), {});

  EXPECT_EQ(sgd.state()[0].data(), parameters.data_ptr<float>());
  EXPECT_EQ(sgd.mirror(), nullptr);
}

TEST(Sgd, GradientsOfAScaledLossUpdateAsThoseOfTheLoss) {
  at::manual_seed(1);
  const at::Tensor start = at::randn({1001});
  const at::Tensor gradients = at::randn({1001});
  const at::Tensor plain = start.clone();
  const at::Tensor scaled = start.clone();
  const auto scale = std::make_shared<LossScale>(at::kCPU);
  const SgdOptions options{.weight_decay = 0.01};
  SgdOptions with_scale = options;
  with_scale.loss_scale = scale;
  Sgd one(plain, gradients, options);
  Sgd other(scaled, gradients * LossScale::kFirst, with_scale);

  for (int64_t step = 0; step < 3; ++step) {
    one.Step(step);
    other.Step(step);
  }

  EXPECT_TRUE(at::equal(plain, scaled)) << "a power of two changes no bit";
  ASSERT_EQ(other.state().size(), 3U) << "it is part of the state";
  EXPECT_EQ(other.state()[2].data(), scale->state().data_ptr<float>());
  EXPECT_TRUE(other.LowerLossScale());
  EXPECT_FALSE(one.LowerLossScale()) << "there is none to lower";
}

TEST(LossScale, GrowsAfterManyGoodStepsAndShrinksToOneAtMost) {
  LossScale scale(at::kCPU);
  const auto value = [&] { return scale.value().item<float>(); };
  EXPECT_EQ(value(), LossScale::kFirst);

  for (int i = 1; i < LossScale::kGrowEvery; ++i) scale.Applied();
  EXPECT_EQ(value(), LossScale::kFirst);
  scale.Applied();
  EXPECT_EQ(value(), 2 * LossScale::kFirst);

  for (int i = 1; i < LossScale::kGrowEvery; ++i) scale.Applied();
  EXPECT_TRUE(scale.Lower());
  EXPECT_EQ(value(), LossScale::kFirst);
  scale.Applied();
  EXPECT_EQ(value(), LossScale::kFirst) << "it counts from the step that was left out";
  while (value() > LossScale::kLeast) ASSERT_TRUE(scale.Lower());
  EXPECT_FALSE(scale.Lower());
  EXPECT_EQ(value(), LossScale::kLeast);
}

}  // namespace
}  // namespace ringmaster::trainer
