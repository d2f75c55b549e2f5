#include "common/base/clock.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(Clock, FormatsTimesAsKubernetesDoes) {
  const Clock::WallTime time{std::chrono::microseconds(1'763'632'801'000'042)};

  EXPECT_EQ(FormatTime(time), "2025-11-20T10:00:01Z");
  EXPECT_EQ(FormatMicroTime(time), "2025-11-20T10:00:01.000042Z");
}

}  // namespace
}  // namespace ringmaster
