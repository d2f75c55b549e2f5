#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

TEST(Reconciler, AJobIsIsolatedBeforeItsWorkersAreMade) {
  FakeApi api;
  Operator op(api, "", {}, kIsolated);

  op.Settle();

  EXPECT_EQ(api.Count(kPoliciesPath), 2U);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
  std::size_t policies = 0;
  for (const http::Request& request : api.http.Sent()) {
    if (request.method != http::Method::kPost) continue;
    if (request.path.rfind(kPoliciesPath, 0) == 0) ++policies;
    if (request.body.find("digits-worker-") != std::string::npos) {
      EXPECT_EQ(policies, 2U);
    }
  }
}

TEST(Reconciler, WithoutItsNetworkPoliciesAJobGetsNoWorker) {
  FakeApi api;
  api.refuse_create[kPoliciesPath] = {403, "networkpolicies is forbidden"};
  Operator op(api, "", {}, kIsolated);

  op.Settle();

  EXPECT_EQ(api.Count(std::string(kPodsPath) + "/digits-worker-0"), 0U);
  EXPECT_FALSE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-0"));
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonForbidden);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_NE(ConditionOf(api, api::kNetworkIsolated).message.find("networkpolicies is forbidden"),
            std::string::npos);
}

TEST(Reconciler, AForeignNetworkPolicyOfTheNameIsAConflict) {
  FakeApi api;
  api.objects[std::string(kPoliciesPath) + "/digits-job-uid"] = {{"metadata",
                                                                  {{"name", "digits-job-uid"},
                                                                   {"namespace", "team-a"},
                                                                   {"uid", "x"},
                                                                   {"resourceVersion", "1"}}}};
  Operator op(api, "", {}, kIsolated);

  op.Settle();

  EXPECT_FALSE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-0"));
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonNameConflict);
}

TEST(Reconciler, AJobFromBeforeNetworkPoliciesGetsThemAndKeepsItsPods) {
  FakeApi api;
  Operator(api).Settle();
  ASSERT_EQ(ConditionOf(api, api::kNetworkIsolated).reason, api::kReasonPoliciesOff);
  const json launcher = api.objects[std::string(kPodsPath) + "/digits-launcher-1"];

  Operator(api, "", {}, kIsolated).Settle();

  EXPECT_EQ(api.Count(kPoliciesPath), 2U);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-launcher-1"], launcher);
}

TEST(Reconciler, ANetworkPolicyThatIsChangedOrDeletedIsRestored) {
  FakeApi api;
  Operator op(api, "", {}, kIsolated);
  op.Settle();
  const std::string path = std::string(kPoliciesPath) + "/digits-job-uid";
  const json made = api.objects[path]["spec"];

  api.objects[path]["spec"]["podSelector"]["matchLabels"]["none"] = "has-it";
  api.objects[path]["spec"]["ingress"].push_back(json::object());
  op.clock.Advance(std::chrono::minutes(10));
  op.Settle();

  EXPECT_EQ(api.objects[path]["spec"], made);
  EXPECT_EQ(std::ranges::count(op.events.reasons, "NetworkPolicyRestored"), 1);

  api.objects.erase(path);
  op.clock.Advance(std::chrono::minutes(10));
  op.Settle();

  EXPECT_EQ(api.objects[path]["spec"], made);
  EXPECT_EQ(std::ranges::count(op.events.reasons, "NetworkPolicyRestored"), 2);
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);

  api.http.ForgetSent();
  op.clock.Advance(std::chrono::minutes(10));
  op.Settle();

  int reads = 0;
  for (const http::Request& request : api.http.Sent()) {
    if (request.path.rfind(kPoliciesPath, 0) != 0) continue;
    EXPECT_EQ(request.method, http::Method::kGet);
    ++reads;
  }
  EXPECT_EQ(reads, 2) << "nothing is written where all is well";
}

TEST(Reconciler, AnOperatorThatStartsLooksAtTheNetworkPoliciesWhateverAStatusSays) {
  FakeApi api;
  Operator(api, "", {}, kIsolated).Settle();
  ASSERT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
  const json before = api.objects[std::string(kPoliciesPath) + "/digits-job-uid"]["spec"];
  api.objects.erase(std::string(kPoliciesPath) + "/digits-job-uid");
  api.objects[std::string(kPoliciesPath) + "/digits-job-uid-launcher"]["spec"]["ingress"] =
      json::array({json::object()});

  Operator(api, "", {}, kIsolated).Settle();

  EXPECT_EQ(api.objects[std::string(kPoliciesPath) + "/digits-job-uid"]["spec"], before);
  EXPECT_EQ(
      api.objects[std::string(kPoliciesPath) + "/digits-job-uid-launcher"]["spec"]["ingress"][0]
          .count("from"),
      1U);
}

TEST(Reconciler, AJobWhosePolicyHasAnotherOwnerIsReportedAsNotIsolated) {
  FakeApi api;
  Operator op(api, "", {}, kIsolated);
  op.Settle();
  const std::string path = std::string(kPoliciesPath) + "/digits-job-uid";
  api.objects[path]["metadata"].erase("ownerReferences");
  op.clock.Advance(std::chrono::minutes(10));

  op.Settle();

  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_NE(ConditionOf(api, api::kNetworkIsolated).message.find("NetworkPolicy digits-job-uid"),
            std::string::npos);

  api.objects.erase(path);
  op.clock.Advance(std::chrono::minutes(1));
  op.Settle();

  EXPECT_TRUE(api.objects.contains(path));
  EXPECT_EQ(ConditionOf(api, api::kNetworkIsolated).status, api::ConditionStatus::kTrue);
}

TEST(Reconciler, SaysWhyAJobIsNotIsolated) {
  FakeApi off;
  Operator(off).Settle();
  EXPECT_EQ(off.Count(kPoliciesPath), 0U);
  EXPECT_EQ(ConditionOf(off, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(off, api::kNetworkIsolated).reason, api::kReasonPoliciesOff);

  FakeApi host;
  host.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator(host, kAllowsHostNetwork, {}, kIsolated).Settle();
  EXPECT_EQ(ConditionOf(host, api::kNetworkIsolated).status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ConditionOf(host, api::kNetworkIsolated).reason, api::kReasonHostNetwork);
}

TEST(Reconciler, TheLauncherAdmitsTheNodesOfWorkersThatUseTheirNetwork) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api, kAllowsHostNetwork, {}, kIsolated);
  op.Settle();
  const std::string launcher = std::string(kPoliciesPath) + "/digits-job-uid-launcher";
  ASSERT_EQ(api.objects[launcher]["spec"]["ingress"].size(), 1U);

  const json node = *ParseJson(
      R"({"metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"}, "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.9"}]}})");
  ASSERT_TRUE(op.nodes.Stage(node, *kube::ReadObjectMeta(node)).ok());
  op.nodes.Swap("1");
  api.objects[std::string(kPodsPath) + "/digits-worker-1"]["spec"]["nodeName"] = "n1";
  op.Settle();

  ASSERT_EQ(api.objects[launcher]["spec"]["ingress"].size(), 2U);
  EXPECT_EQ(api.objects[launcher]["spec"]["ingress"][1]["from"],
            (json::array({{{"ipBlock", {{"cidr", "192.168.0.9/32"}}}}})));
}

TEST(Reconciler, WithoutRightsOnNodesTheLauncherAdmitsTheirWorkersAddresses) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api, kAllowsHostNetwork, {}, kIsolated);
  op.Settle();
  json& worker = api.objects[std::string(kPodsPath) + "/digits-worker-1"];
  worker["spec"]["nodeName"] = "n1";
  worker["status"]["podIP"] = "192.168.0.9";
  op.Settle();

  const std::string launcher = std::string(kPoliciesPath) + "/digits-job-uid-launcher";
  ASSERT_EQ(api.objects[launcher]["spec"]["ingress"].size(), 2U);
  EXPECT_EQ(api.objects[launcher]["spec"]["ingress"][1]["from"],
            (json::array({{{"ipBlock", {{"cidr", "192.168.0.9/32"}}}}})));
}

}  // namespace
}  // namespace ringmaster::job
