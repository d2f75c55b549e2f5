#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/fake_kubectl.h"
#include "tests/unit/cli/objects.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

json Named(const char* name, const json& more) {
  json object{{"metadata", {{"name", name}, {"namespace", "ringmaster-system"}}}};
  object.merge_patch(more);
  return object;
}

void AddApi(FakeKubectl& kubectl) {
  kubectl.Gets("*'get --raw /apis/ringmaster.dev/v1alpha1'", {{"resources",
                                                               {{{"name", "trainingjobs"}},
                                                                {{"name", "trainingjobs/status"}},
                                                                {{"name", "localtrainingprofiles"}},
                                                                {{"name", "trainingprofiles"}}}}});
  kubectl.On("*'config view --minify'*", "printf team-a");
}

TEST(Doctor, AClusterThatIsReady) {
  FakeKubectl kubectl;
  AddApi(kubectl);
  kubectl.Gets(
      "*' deployments.apps '*"
      "|*'get deployments.apps '*",
      ListOf({Named("ringmaster-operator",
                    {{"metadata", {{"labels", {{"app.kubernetes.io/version", "9.9.9"}}}}},
                     {"status", {{"availableReplicas", 1}}}})}));
  const json ready = {{"status",
                       {{"allocatable", {{"nvidia.com/gpu", "8"}, {"cpu", "4"}}},
                        {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
  json cordoned = ready;
  cordoned["spec"] = {{"unschedulable", true}};
  kubectl.Gets("*'get nodes '*",
               ListOf({Named("a", ready), Named("b", ready), Named("c", cordoned)}));
  kubectl.Gets(
      "*'get storageclasses'*",
      ListOf({Named("fast", {{"provisioner", "csi.example.com"},
                             {"metadata",
                              {{"annotations",
                                {{"storageclass.kubernetes.io/is-default-class", "true"}}}}}})}));
  kubectl.Gets(
      "*'get namespaces team-a '*",
      Named("team-a",
            {{"metadata", {{"labels", {{"pod-security.kubernetes.io/enforce", "restricted"}}}}}}));
  kubectl.Gets("*'get daemonsets.apps '*", ListOf({Named("calico-node", json::object())}));
  kubectl.Gets("*'get localtrainingprofiles'*",
               ListOf({Named("gpu", {{"spec", {{"default", true}}}})}));
  kubectl.On("*'auth can-i '*", "echo yes");

  const auto ran = kubectl.Run({"doctor"});

  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.find("FAIL"), std::string::npos);
  EXPECT_EQ(ran.out.find("WARN"), std::string::npos) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("2 nodes are ready, 16 nvidia.com/gpu\n"));
  EXPECT_THAT(ran.out, HasSubstr("version 9.9.9, 1 replica available (this plugin is "));
  EXPECT_THAT(ran.out, ContainsRegex("OK +Pod Security +this namespace enforces \"restricted\""));
  EXPECT_THAT(ran.out, HasSubstr("can use gpu (default)\n"));
}

TEST(Doctor, WhatATenantMayNotSeeIsAWarningAndWhatIsMissingFails) {
  FakeKubectl kubectl;
  AddApi(kubectl);
  kubectl.Gets("*'get deployments.apps '*", ListOf({Named("ringmaster-operator", json::object())}));
  kubectl.Gets("*'get storageclasses'*", ListOf({}));
  kubectl.On("*'auth can-i get pods --subresource=log'", "echo no; exit 1");
  kubectl.On("*'auth can-i create '*", "echo no; exit 1");
  kubectl.On("*'auth can-i '*", "echo yes");
  kubectl.Refuses("*", "Error from server (Forbidden): forbidden");

  const auto ran = kubectl.Run({"doctor", "-n", "team-b"});

  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(kubectl.Calls(), HasSubstr("--namespace=team-b get namespaces team-b -o json\n"));
  EXPECT_THAT(ran.out, ContainsRegex("FAIL  operator .*0 replicas available.*; check the events"));
  EXPECT_THAT(ran.out,
              ContainsRegex("FAIL  permissions +you may not create trainingjobs.ringmaster.dev, "
                            "get pods/log in this namespace"));
  EXPECT_THAT(ran.out, ContainsRegex("WARN  nodes, GPUs +cannot be read: "));
  EXPECT_THAT(ran.out, ContainsRegex("WARN  storage class +no storage class is the default"));
  EXPECT_THAT(ran.out, ContainsRegex("WARN  NetworkPolicies +the API does not show"));
  const json told = json::parse(kubectl.Run({"doctor", "-o", "json"}).out);
  EXPECT_EQ(told[0]["result"], "OK");
  EXPECT_EQ(told[1]["check"], "operator");
}

TEST(Doctor, AClusterWithoutRingmaster) {
  FakeKubectl kubectl;
  kubectl.Refuses("*'get --raw '*",
                  "Error from server (NotFound): the server could not find the requested resource");
  kubectl.On("*'config view --minify'*", "true");
  kubectl.On("*'auth can-i '*", "echo yes");
  kubectl.Gets("*", ListOf({}));

  const auto ran = kubectl.Run({"doctor"});

  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, ContainsRegex("FAIL  CRDs +ringmaster.dev/v1alpha1 lacks trainingjobs, "
                                     "localtrainingprofiles, trainingprofiles; install "));
  EXPECT_THAT(ran.out, ContainsRegex("FAIL  operator +no operator is installed; "));
}

TEST(Doctor, WithoutAnApiServerItReportsNothingElse) {
  FakeKubectl kubectl;
  kubectl.Refuses("*", "Unable to connect to the server: no route");

  const auto ran = kubectl.Run({"doctor"});

  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "FAIL  CRDs  Unable to connect to the server: no route\n");
}

}  // namespace
}  // namespace ringmaster::cli
