#include "common/base/cut_text.h"

#include <vector>

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(CutText, EndsAtTheStartOfACharacter) {
  EXPECT_EQ(CutText("short", 5), "short");
  EXPECT_EQ(CutText("longer", 5), "longe");
  EXPECT_EQ(CutText("a\u00fcb", 2), "a");
  EXPECT_EQ(CutText("a\u00fcb", 3), "a\u00fc");
  EXPECT_EQ(CutText("\u20ac", 2), "");
}

TEST(ListText, CountsTheItemsBeyondTheLimit) {
  const std::vector<std::string> items{"a", "b", "c"};

  EXPECT_EQ(ListText({}, 2), "");
  EXPECT_EQ(ListText(items), "a, b, c");
  EXPECT_EQ(ListText(items, 3), "a, b, c");
  EXPECT_EQ(ListText(items, 2), "a, b and 1 more");
}

}  // namespace
}  // namespace ringmaster
