// A step on rows of centres: the kernels' against the host's own, and the promise of both that a
// row's bits do not depend on the shard it is in.

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

#include "tests/unit/trainer/partial_fc/head_on_host_kernels.h"
#include "tests/unit/trainer/partial_fc/step_of_rows.h"
#include "worker/trainer/gpu/kernel_shard_step.h"
#include "worker/trainer/partial_fc/host_head_device.h"

namespace ringmaster::trainer::partial_fc {
namespace {

TEST(KernelShardStep, MakesWhatTheHostsDoes) {
  const auto host = MakeHostHeadDevice();
  const auto kernels = HeadOnHostKernels();
  for (const double rate : {1.0, 0.3, 1e-6}) {
    SCOPED_TRACE(rate);
    const HeadOptions options = StepOptions(rate);
    // In chunks of 64 rows: several, and the last one smaller.
    KernelShardStep step({.device = at::kCPU, .stream = [] { return nullptr; }}, 64);
    const MadeByAStep expected = RunStep(options, *host, *host->MakeStep(), {10, 290});
    const MadeByAStep made = RunStep(options, *kernels, step, {10, 290});

    EXPECT_EQ(made.sampled, expected.sampled);
    EXPECT_TRUE(IsNear(made.maximum, expected.maximum));
    EXPECT_TRUE(IsNear(made.sum, expected.sum));
    EXPECT_TRUE(IsNear(made.target, expected.target));
    EXPECT_TRUE(IsNear(made.gradients, expected.gradients));
    EXPECT_TRUE(IsNear(made.rows, expected.rows));
  }
}

TEST(KernelShardStep, ARangeWithoutSampledClassesChangesNothing) {
  const auto kernels = HeadOnHostKernels();
  const MadeByAStep made = RunStep(StepOptions(1e-6), *kernels, *kernels->MakeStep(), {100, 110});

  EXPECT_TRUE(made.sampled.empty());
  EXPECT_EQ(made.maximum, std::vector<float>(7, kNoMaximum));
  EXPECT_EQ(made.gradients, std::vector<float>(7 * kStepWidth));
  EXPECT_EQ(made.checksum, 0U);
}

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

}  // namespace
}  // namespace ringmaster::trainer::partial_fc
