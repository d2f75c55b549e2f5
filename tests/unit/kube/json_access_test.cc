#include "operator/kube/json_access.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ringmaster::kube {
namespace {

using nlohmann::json;

const json kObject = json::parse(R"({
  "name": "x", "null": null, "number": 5, "big": 5000000000, "huge": 18446744073709551615, "fraction": 1.5,
  "list": [1, 2], "flag": true, "labels": {"a": "b", "n": 1, "z": null}})");

TEST(JsonAccess, TreatsNullAndWrongTypesAsAbsent) {
  EXPECT_EQ(GetString(kObject, {"name"}), "x");
  EXPECT_EQ(GetString(kObject, {"null"}, "d"), "d");
  EXPECT_EQ(GetString(kObject, {"number"}, "d"), "d");
  EXPECT_EQ(GetString(kObject, {"null", "deeper"}, "d"), "d");
  EXPECT_EQ(GetString(kObject, {"name", "deeper"}, "d"), "d");
  EXPECT_EQ(GetString(json(), {"name"}), "");
  EXPECT_EQ(Find(kObject, {"null"}), nullptr);
  EXPECT_TRUE(GetBool(kObject, {"flag"}));
  EXPECT_TRUE(GetBool(kObject, {"number"}, true));
}

TEST(JsonAccess, NeverNarrowsNumbers) {
  EXPECT_EQ(GetInt32(kObject, {"number"}), 5);
  EXPECT_EQ(GetInt32(kObject, {"big"}), std::nullopt);
  EXPECT_EQ(GetInt64(kObject, {"big"}), 5000000000);
  EXPECT_EQ(GetInt64(kObject, {"huge"}), std::nullopt);
  EXPECT_EQ(GetInt64(kObject, {"fraction"}), std::nullopt);
  EXPECT_EQ(GetInt64(kObject, {"name"}), std::nullopt);
}

TEST(JsonAccess, ReturnsEmptyListsAndMapsForAnythingElse) {
  EXPECT_EQ(GetArray(kObject, {"list"}).size(), 2u);
  EXPECT_EQ(GetArray(kObject, {"null"}).size(), 0u);
  EXPECT_EQ(GetArray(kObject, {"labels"}).size(), 0u);
  EXPECT_EQ(GetStringMap(kObject, {"labels"}), (std::map<std::string, std::string>{{"a", "b"}}));
  EXPECT_TRUE(GetStringMap(kObject, {"list"}).empty());
}

TEST(JsonAccess, LeavesOutManagedFieldsAndNothingElse) {
  const auto parsed = ParseServerJson(
      R"({"metadata": {"name": "x", "managedFields": [{"a": {"b": [1]}}, 2], "z": [1, {"q": null}]},
    "items": [{"metadata": {"managedFields": {"f": {}}, "uid": "u"}}, [], {}],
    "spec": {"managedFields": [1], "metadata": "text", "x": 1.5, "y": -3, "u": 18446744073709551615, "t": true}})");

  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, json::parse(R"({"metadata": {"name": "x", "z": [1, {"q": null}]},
    "items": [{"metadata": {"uid": "u"}}, [], {}],
    "spec": {"managedFields": [1], "metadata": "text", "x": 1.5, "y": -3, "u": 18446744073709551615, "t": true}})"));
}

TEST(JsonAccess, ParsesServerJsonLikeAnyOther) {
  for (const char* text : {"1", "null", "\"s\"", "[]", "[[1],{}]", "{}",
                           R"({"metadata":null,"a":{"managedFields":1}})",
                           R"({"metadata":[{"managedFields":1}]})", R"({"a":1,"a":2})"}) {
    const auto parsed = ParseServerJson(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, json::parse(text)) << text;
  }
  for (const char* text :
       {"", "{", "[1", "{\"a\":", "{\"metadata\":{\"managedFields\":[", "x", "1 2", "{\"a\" 1}"}) {
    EXPECT_FALSE(ParseServerJson(text).ok()) << text;
  }
}

}  // namespace
}  // namespace ringmaster::kube
