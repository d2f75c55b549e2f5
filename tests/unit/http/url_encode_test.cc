#include <gtest/gtest.h>

#include "operator/http/http_client.h"

namespace ringmaster::http {
namespace {

TEST(UrlEncode, KeepsUnreservedAndEncodesTheRest) {
  EXPECT_EQ(UrlEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(UrlEncode("ringmaster.dev/managed-by=ringmaster"),
            "ringmaster.dev%2Fmanaged-by%3Dringmaster");
  EXPECT_EQ(UrlEncode("a b&\xC3\xA9"), "a%20b%26%C3%A9");
}

TEST(Headers, CompareWithoutCase) {
  const Headers headers{{"Retry-After", "3"}};

  EXPECT_TRUE(headers.contains("retry-after"));
  EXPECT_FALSE(headers.contains("retry-afte"));
}

}  // namespace
}  // namespace ringmaster::http
