#include "operator/kube/object_meta.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ringmaster::kube {
namespace {

TEST(ObjectMeta, ReadsIdentityAndControllingOwner) {
  const auto meta = ReadObjectMeta(nlohmann::json::parse(R"({"metadata": {
    "name": "digits-worker-0", "namespace": "team-a", "uid": "u1", "resourceVersion": "17",
    "ownerReferences": [{"kind": "Other", "name": "o", "uid": "u9"},
                        {"kind": "TrainingJob", "name": "digits", "uid": "u2", "controller": true}]}})"));

  ASSERT_TRUE(meta.ok());
  EXPECT_EQ(meta->Key(), "team-a/digits-worker-0");
  EXPECT_EQ(meta->uid, "u1");
  EXPECT_EQ(meta->resource_version, "17");
  EXPECT_EQ(meta->owner_kind, "TrainingJob");
  EXPECT_EQ(meta->owner_name, "digits");
  EXPECT_EQ(meta->owner_uid, "u2");
}

TEST(ObjectMeta, RefusesWhatHasNoName) {
  for (const char* text :
       {"{}", "null", "[]", R"({"metadata": null})", R"({"metadata": {"name": 5}})"}) {
    EXPECT_FALSE(ReadObjectMeta(nlohmann::json::parse(text)).ok()) << text;
  }
}

TEST(ObjectMeta, SurvivesNullsAndWrongTypes) {
  const auto meta = ReadObjectMeta(nlohmann::json::parse(
      R"({"metadata": {"name": "x", "uid": null, "ownerReferences": [null, 5, {"controller": "yes"}]}})"));

  ASSERT_TRUE(meta.ok());
  EXPECT_EQ(meta->owner_uid, "");
}

}  // namespace
}  // namespace ringmaster::kube
