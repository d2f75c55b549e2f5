#include "worker/trainer/train/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

using ::testing::HasSubstr;

TEST(DryRun, DescribesTheTraining) {
  const std::string text = DryRunText({.workload = "mnist",
                                       .device = "cpu",
                                       .data = "/data",
                                       .training_samples = 60'000,
                                       .held_out_samples = 10'000,
                                       .steps = 938,
                                       .global_batch = 256,
                                       .ranks = 3,
                                       .parameters = 21'840,
                                       .state_bytes = 174'720,
                                       .bucket_bytes = {66'240, 21'136},
                                       .precision = "bf16",
                                       .compression = "none",
                                       .checkpoint_dir = "/checkpoints",
                                       .checkpoint_every = 500});

  EXPECT_THAT(text, HasSubstr("  workload       mnist\n"));
  EXPECT_THAT(text, HasSubstr("  parameters     21840 (170 KiB with the optimizer's state)\n"));
  EXPECT_THAT(text, HasSubstr("  data           /data: 60000 samples, 10000 held out\n"));
  EXPECT_THAT(text, HasSubstr("  steps          938 of 256 samples\n"));
  EXPECT_THAT(text, HasSubstr("  per rank       85 or 86 samples per step, on 3 ranks\n"));
  EXPECT_THAT(text, HasSubstr("  micro-batch    a rank's share when all workers are present\n"));
  EXPECT_THAT(DryRunText({.global_batch = 64, .micro_batch = 16}),
              HasSubstr("  micro-batch    at most 16 samples at once\n"));
  EXPECT_THAT(text, HasSubstr("  buckets        2: 64 KiB 20 KiB\n"));
  EXPECT_THAT(text, HasSubstr("  precision      bf16\n"));
  EXPECT_THAT(text, HasSubstr("  checkpoints    every 500 steps, into /checkpoints\n"));
}

TEST(DryRun, AnEvenShareIsOneNumberAndNoFolderIsNoCheckpoint) {
  const std::string text = DryRunText({.workload = "mnist", .global_batch = 64, .ranks = 2});

  EXPECT_THAT(text, HasSubstr("  per rank       32 samples per step, on 2 ranks\n"));
  EXPECT_THAT(text, HasSubstr("none (--checkpoint-dir)"));
}

TEST(DryRun, ReportsTheMemoryOfClassCentres) {
  const std::string text =
      DryRunText({.ranks = 8, .classes = 8'000'000, .embedding = 512, .sample_rate = 0.1});

  EXPECT_THAT(
      text,
      HasSubstr(
          "  class centres  8000000 of 512 numbers each, a fraction of 0.1 of them "
          "per step; 3.8 GiB per rank with momentum, and a copy of another rank's on the host\n"));
}

}  // namespace
}  // namespace ringmaster::trainer
