// Tests the kernel that writes a rank's contribution to a confirmation.

#include <cstdint>

#include <gtest/gtest.h>

#include "worker/trainer/kernels/contribution.h"

namespace ringmaster::trainer {
namespace {

TEST(ContributionKernel, IsZeroIfTheRankHasGivenUp) {
  constexpr uint64_t kPart = 0x0123'4567'89ab'cdef;
  uint32_t gave_up = 0;
  uint64_t given = 7;

  EXPECT_EQ(LaunchContribution(&given, kPart, &gave_up, nullptr), 0);
  EXPECT_EQ(given, kPart);

  gave_up = 1;
  EXPECT_EQ(LaunchContribution(&given, kPart, &gave_up, nullptr), 0);
  EXPECT_EQ(given, 0U);
}

}  // namespace
}  // namespace ringmaster::trainer
