#include "common/base/byte_text.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

TEST(BytesText, TakesTheLargestUnitThatFits) {
  EXPECT_EQ(BytesText(0), "0 bytes");
  EXPECT_EQ(BytesText(1023), "1023 bytes");
  EXPECT_EQ(BytesText(1024), "1 KiB");
  EXPECT_EQ(BytesText(kMiB + kMiB / 2), "1.5 MiB");
  EXPECT_EQ(BytesText(140 * kGiB), "140 GiB");
  EXPECT_EQ(BytesText(int64_t{5} << 50), "5 PiB");
}

TEST(BytesText, RoundsUpOnRequest) {
  EXPECT_EQ(BytesText(140 * kGiB + 1), "140 GiB");
  EXPECT_EQ(BytesText(140 * kGiB + 1, Rounding::kUp), "141 GiB");
  EXPECT_EQ(BytesText(2 * kGiB + 1, Rounding::kUp), "2.1 GiB");
  EXPECT_EQ(BytesText(10 * kGiB - 1), "9.9 GiB");
  EXPECT_EQ(BytesText(10 * kGiB - 1, Rounding::kUp), "10 GiB");
}

TEST(BytesText, WritesAPartInTheUnitOfTheWhole) {
  EXPECT_EQ(BytesOfText(41 * kGiB + 900 * kMiB, 140 * kGiB), "41 of 140 GiB");
  EXPECT_EQ(BytesOfText(512 * kMiB, 2 * kGiB), "0.5 of 2 GiB");
  EXPECT_EQ(BytesOfText(0, 0), "0 of 0 bytes");
}

}  // namespace
}  // namespace ringmaster
