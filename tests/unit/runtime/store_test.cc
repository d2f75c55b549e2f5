#include "operator/runtime/store.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ringmaster::runtime {
namespace {

using nlohmann::json;

struct StoredView {
  std::string name;
  int64_t value = 0;
};

Result<StoredView> Project(const json& object) {
  if (!object.contains("value")) return Error{ErrorKind::kInvalid, "no value"};
  return StoredView{object["metadata"]["name"].get<std::string>(), object["value"].get<int64_t>()};
}

json Object(int64_t value) { return {{"metadata", {{"name", "x"}}}, {"value", value}}; }

kube::ObjectMeta Meta(const std::string& name, const std::string& version,
                      const std::string& owner = {}) {
  kube::ObjectMeta meta;
  meta.ns = "n";
  meta.name = name;
  meta.uid = "uid-" + name;
  meta.resource_version = version;
  meta.owner_uid = owner;
  return meta;
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    store_.OnChange([this](const kube::ObjectMeta& meta, Change change) {
      changes_.push_back(meta.Key() + (change == Change::kDeleted ? "-" : "+"));
    });
  }

  Store<StoredView> store_{Project};
  std::vector<std::string> changes_;
};

TEST_F(StoreTest, KeepsWhatReadersTook) {
  ASSERT_TRUE(store_.Apply(Object(1), Meta("a", "5")).ok());
  const auto taken = store_.Get("n/a");

  ASSERT_TRUE(store_.Apply(Object(2), Meta("a", "6")).ok());
  store_.Delete(Meta("a", "7"));

  EXPECT_EQ(taken->value, 1);
  EXPECT_EQ(store_.Get("n/a"), nullptr);
  EXPECT_EQ(store_.LastSeenVersion(), "7");
  EXPECT_EQ(changes_, (std::vector<std::string>{"n/a+", "n/a+", "n/a-"}));
}

TEST_F(StoreTest, IndexesByControllingOwner) {
  ASSERT_TRUE(store_.Apply(Object(1), Meta("a", "1", "job1")).ok());
  ASSERT_TRUE(store_.Apply(Object(2), Meta("b", "2", "job1")).ok());
  ASSERT_TRUE(store_.Apply(Object(3), Meta("c", "3", "job2")).ok());
  ASSERT_TRUE(store_.Apply(Object(4), Meta("b", "4", "job2")).ok());  // b has a new owner

  EXPECT_EQ(store_.ByOwner("n", "job1").size(), 1u);
  EXPECT_EQ(store_.ByOwner("n", "job2").size(), 2u);
  EXPECT_TRUE(store_.ByOwner("other", "job2").empty()) << "an owner is in the same namespace";
  store_.Delete(Meta("a", "5"));
  EXPECT_TRUE(store_.ByOwner("n", "job1").empty());
}

TEST_F(StoreTest, ListsOneNamespaceByName) {
  for (const auto& [ns, name] : {std::pair{"n", "b"}, {"n", "a"}, {"n-2", "c"}, {"m", "d"}}) {
    kube::ObjectMeta meta = Meta(name, "1");
    meta.ns = ns;
    ASSERT_TRUE(store_.Apply({{"metadata", {{"name", name}}}, {"value", 1}}, meta).ok());
  }

  const auto found = store_.InNamespace("n");

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0]->name, "a");
  EXPECT_EQ(found[1]->name, "b");
}

TEST_F(StoreTest, SwapReportsOnlyWhatDiffersAndWhatVanished) {
  ASSERT_TRUE(store_.Apply(Object(1), Meta("gone", "1", "job")).ok());
  ASSERT_TRUE(store_.Apply(Object(1), Meta("same", "2", "job")).ok());
  ASSERT_TRUE(store_.Apply(Object(1), Meta("changed", "3", "job")).ok());
  changes_.clear();

  ASSERT_TRUE(store_.Stage(Object(1), Meta("same", "2", "job")).ok());
  ASSERT_TRUE(store_.Stage(Object(9), Meta("changed", "8", "job")).ok());
  ASSERT_TRUE(store_.Stage(Object(1), Meta("new", "9", "job")).ok());
  ASSERT_TRUE(store_.Stage(Object(1), Meta("taken-back", "9", "job")).ok());
  store_.Unstage(Meta("taken-back", "10"));
  EXPECT_EQ(store_.size(), 3u) << "the old content is served until the swap";
  EXPECT_FALSE(store_.Synced());
  store_.Swap("10");

  EXPECT_TRUE(store_.Synced());
  EXPECT_EQ(store_.LastSeenVersion(), "10");
  EXPECT_EQ(changes_, (std::vector<std::string>{"n/gone-", "n/changed+", "n/new+"}));
  EXPECT_EQ(store_.Get("n/changed")->value, 9);
  EXPECT_EQ(store_.ByOwner("n", "job").size(), 3u);
}

TEST_F(StoreTest, ForgetsAnObjectThatCannotBeRead) {
  ASSERT_TRUE(store_.Apply(Object(1), Meta("a", "1")).ok());

  const auto applied = store_.Apply({{"metadata", {{"name", "a"}}}}, Meta("a", "2"));

  ASSERT_FALSE(applied.ok());
  EXPECT_NE(applied.error().message.find("n/a"), std::string::npos);
  EXPECT_EQ(store_.Get("n/a"), nullptr);
}

TEST_F(StoreTest, DeletingTheUnknownIsNoChange) {
  store_.Delete(Meta("never", "1"));

  EXPECT_TRUE(changes_.empty());
}

}  // namespace
}  // namespace ringmaster::runtime
