// Compares a step of the kernels, which run on the host here, with a step of the host's code.

#include "worker/trainer/gpu/kernel_shard_step.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/trainer/partial_fc/head_devices.h"
#include "tests/unit/trainer/partial_fc/step_of_rows.h"
#include "worker/trainer/partial_fc/host_head_device.h"

namespace ringmaster::trainer::partial_fc {
namespace {

TEST(KernelShardStep, MakesWhatTheHostsDoes) {
  const auto host = MakeHostHeadDevice();
  const auto kernels = HeadOnHostKernels();
  for (const auto& [rate, dense] :
       {std::pair(1.0, false), {0.3, false}, {1e-6, false}, {0.3, true}}) {
    SCOPED_TRACE(testing::Message() << rate << (dense ? " dense" : ""));
    HeadOptions options = StepOptions(rate);
    options.dense_update = dense;
    // Uses chunks of 64 rows, so there are several chunks, of which the last is smaller.
    KernelShardStep step({.device = at::kCPU, .stream = [] { return nullptr; }}, 64);
    const MadeByAStep expected = RunStep(options, *host, *host->MakeStep(), {10, 290});
    const MadeByAStep made = RunStep(options, *kernels, step, {10, 290});

    EXPECT_EQ(made.sampled, expected.sampled);
    EXPECT_TRUE(IsNear(made.maximum, expected.maximum));
    EXPECT_TRUE(IsNear(made.sum, expected.sum));
    EXPECT_TRUE(IsNear(made.target, expected.target));
    EXPECT_TRUE(IsNear(made.gradients, expected.gradients));
    EXPECT_TRUE(IsNear(made.rows, expected.rows));
    EXPECT_NE(made.checksum, 0U);
    EXPECT_EQ(dense || rate == 1, made.checksum == RowsChecksum(10, 2 * kStepWidth, made.rows));
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

}  // namespace
}  // namespace ringmaster::trainer::partial_fc
