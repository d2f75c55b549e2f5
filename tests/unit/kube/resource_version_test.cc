#include "operator/kube/resource_version.h"

#include <limits>

#include <gtest/gtest.h>

namespace ringmaster::kube {
namespace {

TEST(ResourceVersion, ComparesDecimalNumbersOfAnyLength) {
  EXPECT_EQ(CompareResourceVersions("9", "10"), std::strong_ordering::less);
  EXPECT_EQ(CompareResourceVersions("10", "10"), std::strong_ordering::equal);
  EXPECT_EQ(CompareResourceVersions("123456789012345678901", "99999999999999999999"),
            std::strong_ordering::greater);
}

TEST(ResourceVersion, DoesNotCompareAnythingElse) {
  for (const char* other : {"", "0", "01", "abc", "1a", "-1"}) {
    EXPECT_FALSE(CompareResourceVersions(other, "10")) << other;
    EXPECT_FALSE(CompareResourceVersions("10", other)) << other;
  }
}

TEST(ResourceVersion, IsANumberWhereItFits) {
  EXPECT_EQ(NumberOf("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* other : {"9223372036854775808", "", "0", "01", "abc", "1a", "-1"}) {
    EXPECT_FALSE(NumberOf(other)) << other;
  }
}

}  // namespace
}  // namespace ringmaster::kube
