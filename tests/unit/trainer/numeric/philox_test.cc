#include "worker/trainer/numeric/philox.h"

#include <array>

#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

// The test vectors published with Random123 for philox4x32 with 10 rounds.
TEST(Philox, MatchesThePublishedVectors) {
  struct Case {
    PhiloxBlock counter;
    PhiloxKey key;
    std::array<uint32_t, 4> expected;
  };
  const std::array<Case, 3> cases = {{
      {{{0, 0, 0, 0}}, {{0, 0}}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       {{0xffffffff, 0xffffffff}},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {{0xa4093822, 0x299f31d0}},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  }};

  for (const Case& c : cases) {
    const PhiloxBlock block = Philox4x32(c.counter, c.key);

    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(block.words[i], c.expected[i]);
  }
}

TEST(Philox, GivesEveryPurposeItsOwnStream) {
  const PhiloxBlock dropout = RandomBlock(7, RandomPurpose::kDropout, 3, 5, 1);
  const PhiloxBlock digits = RandomBlock(7, RandomPurpose::kDigits, 3, 5, 1);

  EXPECT_NE(dropout.words[0], digits.words[0]);
}

TEST(Philox, UnitFloatsStayBelowOne) {
  EXPECT_EQ(UnitFloat(0), 0.0F);
  EXPECT_LT(UnitFloat(0xffffffff), 1.0F);
}

}  // namespace
}  // namespace ringmaster::trainer
