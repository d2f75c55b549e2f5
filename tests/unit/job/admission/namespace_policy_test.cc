#include "operator/job/admission/namespace_policy.h"

#include <gtest/gtest.h>

namespace ringmaster::job {
namespace {

TEST(NamespacePolicy, AllowsNothingUntilItSaysSo) {
  for (const char* text :
       {"", "{}", R"({"namespaces": {}})", R"({"namespaces": {"team-b": {"root": true}}})"}) {
    const auto policy = NamespacePolicy::Parse(text);
    ASSERT_TRUE(policy.ok()) << text;

    const NamespaceRules rules = policy->Of("team-a");

    EXPECT_FALSE(rules.host_network || rules.privileged || rules.root || rules.resource_claims);
    EXPECT_TRUE(rules.service_accounts.empty() && rules.capabilities.empty() &&
                rules.device_resources.empty());
    EXPECT_FALSE(rules.image_prefixes || rules.priority_classes || rules.runtime_classes ||
                 rules.max_workers || rules.max_gpus);
  }
}

TEST(NamespacePolicy, ANamedNamespaceHasItsOwnRulesAlone) {
  const auto policy = NamespacePolicy::Parse(R"({
    "default": {"maxWorkers": 4, "imagePrefixes": ["example.com/"]},
    "namespaces": {"team-a": {"hostNetwork": true, "privileged": true, "root": true, "resourceClaims": true,
      "serviceAccounts": ["trainer"], "capabilities": ["IPC_LOCK"], "deviceResources": ["rdma/hca"], "maxGPUs": 16,
      "priorityClasses": ["low"], "runtimeClasses": ["nvidia"]}}})");
  ASSERT_TRUE(policy.ok()) << policy.error().message;

  const NamespaceRules own = policy->Of("team-a");
  EXPECT_TRUE(own.host_network && own.privileged && own.root && own.resource_claims);
  EXPECT_EQ(own.service_accounts, std::vector<std::string>{"trainer"});
  EXPECT_EQ(own.capabilities, std::vector<std::string>{"IPC_LOCK"});
  EXPECT_EQ(own.device_resources, std::vector<std::string>{"rdma/hca"});
  EXPECT_EQ(own.priority_classes, std::vector<std::string>{"low"});
  EXPECT_EQ(own.runtime_classes, std::vector<std::string>{"nvidia"});
  EXPECT_EQ(own.max_gpus, 16);
  EXPECT_FALSE(own.max_workers || own.image_prefixes);
  EXPECT_EQ(own.ns, "team-a");

  const NamespaceRules others = policy->Of("team-b");
  EXPECT_EQ(others.max_workers, 4);
  EXPECT_EQ(others.image_prefixes, std::vector<std::string>{"example.com/"});
  EXPECT_FALSE(others.host_network);
}

TEST(NamespacePolicy, AMistakeIsNamedByItsPath) {
  const struct {
    const char* text;
    const char* path;
  } table[] = {
      {R"({"namespaces": {"team-a": {"hostnetwork": true}}})",
       "namespaces.team-a.hostnetwork is unknown"},
      {R"({"default": {"root": "yes"}})", "default.root is neither true nor false"},
      {R"({"default": {"maxWorkers": -1}})", "default.maxWorkers is no whole number"},
      {R"({"default": {"maxGPUs": "8"}})", "default.maxGPUs is no whole number"},
      {R"({"default": {"capabilities": "IPC_LOCK"}})", "default.capabilities is not a list"},
      {R"({"default": {"imagePrefixes": [""]}})", "default.imagePrefixes has an item"},
      {R"({"default": []})", "default is not an object"},
      {R"({"namespaces": []})", "namespaces is not one of"},
      {R"({"team-a": {}})", "team-a is not one of"},
      {"namespaces: {}", "is not a JSON object"},
  };
  for (const auto& row : table) {
    const auto policy = NamespacePolicy::Parse(row.text);

    ASSERT_FALSE(policy.ok()) << row.text;
    EXPECT_NE(policy.error().message.find(row.path), std::string::npos) << policy.error().message;
  }
}

}  // namespace
}  // namespace ringmaster::job
