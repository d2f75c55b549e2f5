#include "operator/job/controller/node_changes.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "operator/kube/object_meta.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using Strings = std::vector<std::string>;

class NodeChangesTest : public ::testing::Test {
 protected:
  NodeChangesTest() {
    for (const char* name : {"one", "two"}) {
      Put(jobs_, {{"metadata", {{"name", name}, {"namespace", "a"}, {"uid", Uid(name)}}},
                  {"spec", {{"command", {"x"}}}}});
      Put(pods_, Worker(name, 0, "node-1"));
      Put(pods_, Worker(name, 1, std::string("node-of-") + name));
    }
  }

  static std::string Uid(const std::string& job) { return "uid-" + job; }
  static json Worker(const std::string& job, int index, const std::string& node) {
    return {{"metadata",
             {{"name", job + "-worker-" + std::to_string(index)},
              {"namespace", "a"},
              {"ownerReferences", json::array({{{"kind", "TrainingJob"},
                                                {"name", job},
                                                {"uid", Uid(job)},
                                                {"controller", true}}})}}},
            {"spec", {{"nodeName", node}}}};
  }
  static json Node(const std::string& name, const char* ready) {
    return {{"metadata", {{"name", name}}},
            {"status", {{"conditions", json::array({{{"type", "Ready"}, {"status", ready}}})}}}};
  }
  template <typename Store>
  static void Put(Store& store, const json& object) {
    ASSERT_TRUE(store.Apply(object, *kube::ReadObjectMeta(object)).ok());
  }
  Strings Change(const std::string& name, const char* ready) {
    Put(nodes_, Node(name, ready));
    return changes_.JobsToLookAt(name);
  }

  JobStore jobs_{api::DecodeTrainingJob};
  PodStore pods_{ProjectPod};
  NodeStore nodes_{ProjectNode};
  NodeChanges changes_{nodes_, pods_, jobs_};
};

TEST_F(NodeChangesTest, OnlyWhatAPlanReadsIsAChange) {
  EXPECT_EQ(Change("node-1", "True"), Strings{}) << "a healthy node is not news";
  EXPECT_EQ(Change("node-1", "True"), Strings{}) << "a report of the kubelet";
  EXPECT_EQ(Change("node-1", "Unknown"), (Strings{"a/one", "a/two"}));
  EXPECT_EQ(Change("node-1", "Unknown"), Strings{});
  EXPECT_EQ(Change("node-1", "True"), (Strings{"a/one", "a/two"}));
}

TEST_F(NodeChangesTest, OnlyJobsWithAPodThereAreLookedAt) {
  EXPECT_EQ(Change("node-of-two", "Unknown"), Strings{"a/two"});
  EXPECT_EQ(Change("elsewhere", "Unknown"), Strings{});
}

TEST_F(NodeChangesTest, ADeletedNodeIsAChange) {
  (void)Change("node-1", "True");
  nodes_.Delete(*kube::ReadObjectMeta(Node("node-1", "True")));

  EXPECT_EQ(changes_.JobsToLookAt("node-1"), (Strings{"a/one", "a/two"}));
  EXPECT_EQ(changes_.JobsToLookAt("node-1"), Strings{}) << "once";
}

}  // namespace
}  // namespace ringmaster::job
