#include "operator/kube/resource_version.h"

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

}  // namespace
}  // namespace ringmaster::kube
