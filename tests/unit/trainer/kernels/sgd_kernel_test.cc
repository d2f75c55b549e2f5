// Compares the update kernel with the host's arithmetic for each element.

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/sgd_update.h"

namespace ringmaster::trainer {
namespace {

std::vector<float> Wave(int64_t count, float phase) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 0.01F + phase);
  }
  return values;
}

// `scale`: the factor by which the gradients were scaled; null: they were not scaled.
void CompareUpdate(int64_t count, const float* scale = nullptr) {
  SCOPED_TRACE(count);
  constexpr SgdRates kRates{.momentum = 0.9F, .rate = 0.05F, .weight_decay = 0.01F};
  std::vector<float> parameters = Wave(count, 0);
  std::vector<float> velocity = Wave(count, 1);
  const std::vector<float> gradients = Wave(count, 2);
  std::vector<float> expected = parameters;
  std::vector<float> expected_velocity = velocity;

  for (std::size_t i = 0; i < gradients.size(); ++i) {
    SgdElement(expected[i], expected_velocity[i], gradients[i], scale == nullptr ? 1 : *scale,
               kRates);
  }
  const int error = LaunchSgdUpdate(parameters.data(), velocity.data(), gradients.data(), count,
                                    scale, kRates, nullptr);

  EXPECT_EQ(error, 0);
  EXPECT_TRUE(parameters == expected);
  EXPECT_TRUE(velocity == expected_velocity);
}

TEST(SgdKernel, GivesWhatTheHostGives) {
  for (const int64_t count : {0, 1, 3, 4, 5, 1000, 1023, 1024, 1025}) CompareUpdate(count);
}

TEST(SgdKernel, TakesTheLossScaleFromMemory) {
  for (const float scale : {1.0F, 65536.0F}) CompareUpdate(1023, &scale);
}

TEST(SgdKernel, GivesWhatTheHostGivesBeyondAStrideOfTheGrid) {
  const FewBlocks few(2);
  for (const int64_t count : {2047, 2048, 2049, 7003}) CompareUpdate(count);
}

}  // namespace
}  // namespace ringmaster::trainer
