#include "common/json/json.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ringmaster {
namespace {

TEST(Json, InvalidTextIsAnError) {
  for (const char* bad : {"", "{", "nul", "{\"a\":}", "1 2", "\xff"}) {
    EXPECT_EQ(ParseJson(bad).error().kind, ErrorKind::kInvalid) << bad;
  }
  EXPECT_TRUE(ParseJson("[1]").ok());
  EXPECT_EQ(ParseJsonObject("[1]").error().message, "the text is not a JSON object");
  EXPECT_TRUE(ParseJsonObject("{}").ok());
}

TEST(Json, NestingIsLimited) {
  EXPECT_TRUE(ParseJson(std::string(10'000, '[') + std::string(10'000, ']')).ok());
  EXPECT_FALSE(ParseJson(std::string(50'000, '[')).ok());
}

TEST(Json, InvalidUtf8IsReplaced) { EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xef\xbf\xbd\""); }

TEST(Json, OnlyIntegersInRangeAreTaken) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  EXPECT_EQ(IntegerIn(Json(kMost), kLeast, kMost), kMost);
  EXPECT_EQ(IntegerIn(Json(kLeast), kLeast, kMost), kLeast);
  EXPECT_EQ(IntegerIn(Json(3), 3, 3), 3);
  EXPECT_EQ(IntegerIn(Json(2), 3, 5), std::nullopt);
  EXPECT_EQ(IntegerIn(Json(6), 3, 5), std::nullopt);
  EXPECT_EQ(IntegerIn(Json(std::numeric_limits<uint64_t>::max()), kLeast, kMost), std::nullopt);
  for (const Json& other : {Json(3.0), Json("3"), Json(true), Json(nullptr), Json::array({3})}) {
    EXPECT_EQ(IntegerIn(other, kLeast, kMost), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace ringmaster
