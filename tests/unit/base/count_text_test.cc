#include "common/base/count_text.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(CountText, OnlyOneIsSingular) {
  EXPECT_EQ(CountText(0, "file"), "0 files");
  EXPECT_EQ(CountText(1, "file"), "1 file");
  EXPECT_EQ(CountText(int64_t{5'000'000'000}, "file"), "5000000000 files");
}

}  // namespace
}  // namespace ringmaster
