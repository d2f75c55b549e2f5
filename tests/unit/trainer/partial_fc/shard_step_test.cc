// Tests that a row's bits depend only on the row and the step's inputs, and not on its shard.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/trainer/partial_fc/head_devices.h"
#include "tests/unit/trainer/partial_fc/step_of_rows.h"

namespace ringmaster::trainer::partial_fc {
namespace {

class ShardStepOn : public testing::TestWithParam<HeadMaker> {};
INSTANTIATE_TEST_SUITE_P(Device, ShardStepOn, kHeadDevices, NameOfHeadDevice);

TEST_P(ShardStepOn, AReplayOfAPartGivesTheBitsOfTheWholeAndTouchesSampledRowsOnly) {
  const auto device = GetParam()();
  const HeadOptions options = StepOptions(0.4);
  const auto step = device->MakeStep();
  const Rows before = Rows::Initial({0, kStepClasses}, kStepWidth, 1, *device);
  Rows whole = before.On(*device);
  Replay(options, InputsOfTheStep(), *device, *step, whole);

  for (const ClassRange range : {ClassRange{0, 1}, ClassRange{1, 202}, ClassRange{202, 300}}) {
    Rows part = Rows::Initial(range, kStepWidth, 1, *device);
    Replay(options, InputsOfTheStep(), *device, *step, part);
    EXPECT_TRUE(std::ranges::equal(part.values(), whole.Of(range))) << range.begin;
    EXPECT_EQ(part.Checksum(), whole.Checksum(range));
  }
  const std::vector<int64_t> sampled =
      SampledClasses(options.sampling, kTheStep, InputsOfTheStep().labels, {0, kStepClasses});
  for (int64_t row = 0; row < kStepClasses; ++row) {
    EXPECT_EQ(std::ranges::equal(whole.Of({row, row + 1}), before.Of({row, row + 1})),
              !std::ranges::binary_search(sampled, row))
        << row;
  }
}

TEST_P(ShardStepOn, ADenseUpdateMovesTheOtherRowsByMomentumAndDecay) {
  const auto device = GetParam()();
  HeadOptions options = StepOptions(0.4);
  options.dense_update = true;
  const auto step = device->MakeStep();
  const Rows before = Rows::Initial({0, kStepClasses}, kStepWidth, 1);
  Rows whole = before.On(*device);
  for (int times = 0; times < 2; ++times) {
    Replay(options, InputsOfTheStep(), *device, *step, whole);
  }

  Rows part = Rows::Initial({1, 202}, kStepWidth, 1, *device);
  for (int times = 0; times < 2; ++times) {
    Replay(options, InputsOfTheStep(), *device, *step, part);
  }
  EXPECT_TRUE(std::ranges::equal(part.values(), whole.Of({1, 202})));
  const Rows after = whole.On(HostRows());
  const std::vector<int64_t> sampled =
      SampledClasses(options.sampling, kTheStep, InputsOfTheStep().labels, {0, kStepClasses});
  const auto decay = static_cast<float>(options.weight_decay);
  for (int64_t row = 0; row < kStepClasses; ++row) {
    if (std::ranges::binary_search(sampled, row)) continue;
    for (int64_t k = 0; k < kStepWidth; ++k) {
      float value = before.centre(row)[k], momentum = 0;
      for (int times = 0; times < 2; ++times) {
        momentum = 0.9F * momentum + decay * value;
        value -= 0.1F * momentum;
      }
      EXPECT_FLOAT_EQ(after.centre(row)[k], value);
      EXPECT_FLOAT_EQ(after.momentum(row)[k], momentum);
    }
  }
}

}  // namespace
}  // namespace ringmaster::trainer::partial_fc
