#include "common/base/count_text.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(CountText, OnlyOneIsSingular) {
  EXPECT_EQ(CountText(0, "file"), "0 files");
  EXPECT_EQ(CountText(1, "file"), "1 file");
  EXPECT_EQ(CountText(1, "step", "was", "were"), "1 step was");
  EXPECT_EQ(CountText(0, "step", "was", "were"), "0 steps were");
  EXPECT_EQ(AllText(1, "rank"), "its one rank");
  EXPECT_EQ(AllText(4, "rank"), "all 4 ranks");
  EXPECT_EQ(TimesText(1), "1 time");
  EXPECT_EQ(TimesText(5), "5 times in a row");
  EXPECT_EQ(CountText(int64_t{5'000'000'000}, "file"), "5000000000 files");
}

}  // namespace
}  // namespace ringmaster
