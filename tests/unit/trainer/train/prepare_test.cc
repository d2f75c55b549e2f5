#include "worker/trainer/train/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

using ::testing::HasSubstr;

// Returns options for this number of ranks. Generated digits have ten classes.
TrainOptions OnRanks(const char* workload, int ranks) {
  TrainOptions options;
  options.workload = workload;
  options.generated_samples = 64;
  options.global_batch = 16;
  options.world_size = ranks;
  options.partial_fc.backbone = "small";
  options.partial_fc.embedding = 16;
  return options;
}

TEST(Prepare, RefusesMoreRanksThanAStepHasSamples) {
  const Result<std::string> described = Describe(OnRanks(kMnistWorkload, 17));

  ASSERT_FALSE(described.ok());
  EXPECT_EQ(described.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(described.error().message, HasSubstr("--global-batch=16 is less than the 17 ranks"));
}

TEST(Prepare, RefusesMoreRanksThanThereAreClasses) {
  const Result<std::string> described = Describe(OnRanks(kPartialFcWorkload, 11));

  ASSERT_FALSE(described.ok());
  EXPECT_EQ(described.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(described.error().message,
              HasSubstr("the data has 10 classes, fewer than the 11 ranks"));
}

TEST(Prepare, DescribesClassCentres) {
  const Result<std::string> described = Describe(OnRanks(kPartialFcWorkload, 10));

  ASSERT_TRUE(described.ok()) << described.error().message;
  EXPECT_THAT(*described, HasSubstr("class centres  10 of 16 numbers"));
}

}  // namespace
}  // namespace ringmaster::trainer
