#include "operator/job/manifests/network_policies.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/api/names.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::JobBuilder;

TEST(NetworkPolicies, AJobsPodsAdmitOnlyEachOther) {
  const api::TrainingJob job = JobBuilder().Build();
  const json own{{api::kLabelJobUid, job.uid}};

  const json policy = JobNetworkPolicy(job);

  EXPECT_EQ(policy["metadata"]["name"], job.name + "-" + job.uid.substr(0, 8));
  EXPECT_EQ(policy["metadata"]["ownerReferences"][0]["uid"], job.uid);
  // Without a namespaceSelector, only Pods of this namespace are allowed.
  EXPECT_EQ(policy["spec"],
            (json{{"podSelector", {{"matchLabels", own}}},
                  {"policyTypes", {"Ingress"}},
                  {"ingress", {{{"from", {{{"podSelector", {{"matchLabels", own}}}}}}}}}}));
}

TEST(NetworkPolicies, TheLauncherAdmitsTheOperatorAtItsApiAlone) {
  const api::TrainingJob job = JobBuilder().Build();

  const json policy = LauncherNetworkPolicy(job, "ringmaster-system", {});

  EXPECT_EQ(policy["metadata"]["name"], job.name + "-" + job.uid.substr(0, 8) + "-launcher");
  EXPECT_EQ(policy["spec"]["podSelector"]["matchLabels"],
            (json{{api::kLabelJobUid, job.uid}, {api::kLabelRole, api::kRoleLauncher}}));
  ASSERT_EQ(policy["spec"]["ingress"].size(), 1U);
  const json& rule = policy["spec"]["ingress"][0];
  EXPECT_EQ(rule["ports"], (json::array({{{"protocol", "TCP"}, {"port", 8471}}})));
  ASSERT_EQ(rule["from"].size(), 1U);  // a single peer, so both selectors apply
  EXPECT_EQ(rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
            "ringmaster-system");
  EXPECT_EQ(rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"],
            "operator");
}

TEST(NetworkPolicies, OnTheHostsNetworkOnlyTheLauncherIsGuardedAndAdmitsTheNodes) {
  api::TrainingJob job = JobBuilder().Build();
  job.spec.host_network = true;

  EXPECT_EQ(JobNetworkPolicy(job)["spec"]["podSelector"]["matchLabels"][api::kLabelRole],
            api::kRoleLauncher);
  const json policy = LauncherNetworkPolicy(job, "s", {"10.0.0.4", "fd00::4"});
  ASSERT_EQ(policy["spec"]["ingress"].size(), 2U);
  EXPECT_EQ(policy["spec"]["ingress"][1], (json{{"from",
                                                 {{{"ipBlock", {{"cidr", "10.0.0.4/32"}}}},
                                                  {{"ipBlock", {{"cidr", "fd00::4/128"}}}}}}}));
}

}  // namespace
}  // namespace ringmaster::job
