#include "worker/trainer/comm/elements.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/trainer/comm/narrow_floats.h"

namespace ringmaster::trainer {
namespace {

TEST(ElementsTest, ReducesEveryTypeWithEveryOperation) {
  for (const ReduceOp op : kReduceOps) {
    std::array<int64_t, 2> a{3, 7};
    const std::array<int64_t, 2> b{5, 2};
    ReduceFunctionFor(ElementType::kInt64, op)(a.data(), a.data(), b.data(), 2);
    const std::array<int64_t, 4> first{8, 15, 3, 5};
    EXPECT_EQ(a[0], first[static_cast<std::size_t>(op)]) << NameOf(op);
    for (const ElementType type : kElementTypes) {
      EXPECT_NE(ReduceFunctionFor(type, op), nullptr) << NameOf(type);
    }
  }
  int8_t wraps = 100;
  ReduceFunctionFor(ElementType::kInt8, ReduceOp::kSum)(&wraps, &wraps, &wraps, 1);
  EXPECT_EQ(wraps, -56);
  uint16_t half = Float16Of(1.5F);
  ReduceFunctionFor(ElementType::kFloat16, ReduceOp::kProduct)(&half, &half, &half, 1);
  EXPECT_EQ(FloatOfFloat16(half), 2.25F);
}

TEST(NarrowFloatsTest, EveryFloat16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = FloatOfFloat16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FloatOfFloat16(Float16Of(value))));
    } else {
      ASSERT_EQ(Float16Of(value), bits) << value;
    }
  }
}

TEST(NarrowFloatsTest, RoundsToNearestEven) {
  EXPECT_EQ(FloatOfFloat16(Float16Of(2049)), 2048);  // half-way, so it is rounded to even
  EXPECT_EQ(FloatOfFloat16(Float16Of(2051)), 2052);
  EXPECT_EQ(FloatOfFloat16(Float16Of(65519)), 65504);
  EXPECT_EQ(FloatOfFloat16(Float16Of(65520)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(FloatOfFloat16(Float16Of(0x1p-25F)), 0);
  EXPECT_EQ(FloatOfFloat16(Float16Of(0x1.8p-25F)), 0x1p-24F);
  EXPECT_EQ(FloatOfBFloat16(BFloat16Of(257)), 256);
  EXPECT_EQ(FloatOfBFloat16(BFloat16Of(259)), 260);
  EXPECT_TRUE(std::isnan(FloatOfBFloat16(BFloat16Of(std::nanf("")))));
}

}  // namespace
}  // namespace ringmaster::trainer
