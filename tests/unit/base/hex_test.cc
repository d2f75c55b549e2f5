#include "common/base/hex.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(Hex, HasTwoDigitsForEachByteAnd16ForANumber) {
  EXPECT_EQ(HexOf(std::string_view("\x00\x7f\xff", 3)), "007fff");
  EXPECT_EQ(HexOf(0xabc), "0000000000000abc");
}

}  // namespace
}  // namespace ringmaster
