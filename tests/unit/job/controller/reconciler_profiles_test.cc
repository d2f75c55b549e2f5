#include <chrono>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

TEST(Reconciler, WhatNoProfileAllowsNeverGetsAPod) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "") << "a profile may come yet";
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("spec.network.hostNetwork"),
            std::string::npos);
}

TEST(Reconciler, AJobThatNoProfileAllowsBeginsOnceOneDoes) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api);
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 0U);

  PutProfile(api, "late",
             {{"namespaces", {"team-a"}}, {"default", true}, {"allows", {{"hostNetwork", true}}}});
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(api.objects[kJobPath]["status"]["profile"], "late");
}

TEST(Reconciler, WhatItsProfileAllowsGetsItsPods) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator op(api, kAllowsHostNetwork);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["spec"]["hostNetwork"], true);
  EXPECT_FALSE(
      api.objects[std::string(kPodsPath) + "/digits-launcher-1"]["spec"].contains("hostNetwork"));
}

TEST(Reconciler, AStoredProfileReplacesAPresetOfItsName) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  PutProfile(api, "a", {{"namespaces", {"team-a"}}, {"default", true}});
  Operator op(api, kAllowsHostNetwork);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

TEST(Reconciler, ADefaultThatComesLaterLimitsWhatRunsWithoutOne) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  ASSERT_EQ(api.objects[kPinPath]["data"]["profile"], kRestricted);
  const json lenient{{"namespaces", {"team-a"}}, {"default", true}};
  json strict = lenient;
  strict["limits"] = {{"workers", 1}};

  PutProfile(api, "default", strict);
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 3U);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("at most 1 worker,"),
            std::string::npos);
  PutProfile(api, "default", lenient);
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, AJobWaitsWhileTheDefaultOfItsNamespaceCannotBeRead) {
  FakeApi api;
  PutProfile(api, "default",
             {{"namespaces", {"team-a"}}, {"default", true}, {"limits", {{"gpus", "eight"}}}});
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("cannot be decoded"),
            std::string::npos);
}

json RefusedByTheServer(const char* field) {
  return {{"namespaces", {"team-a"}},
          {"default", true},
          {"workload", {{"worker", {{"template", {{"spec", {{field, 1}}}}}}}}}};
}

TEST(Reconciler, NoRunBeginsUnderAProfileWhosePodsTheServerRefusesAndNoneStops) {
  FakeApi api;
  const auto say = [&](const char* profile) {
    json& object = api.objects[std::string(kProfilesPath) + "/" + profile];
    object["status"]["conditions"] =
        json::array({{{"type", "Accepted"},
                      {"status", "False"},
                      {"reason", api::kReasonPodsRefused},
                      {"message", "no job can use it: the API server rejects its Pods: spec.typo"},
                      {"observedGeneration", object["metadata"]["generation"]}}});
  };
  PutProfile(api, "typo", RefusedByTheServer("typo"));
  say("typo");
  Operator op(api);
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 0U);
  const auto& waits = ConditionOf(api, api::kWorkersReady);
  EXPECT_EQ(waits.reason, api::kReasonRefusedByProfile);
  EXPECT_NE(waits.message.find("\"typo\" cannot be used, because the API server rejects its Pods: "
                               "spec.typo; ask"),
            std::string::npos)
      << waits.message;

  PutProfile(api, "typo", RefusedByTheServer("priority"));
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U) << "the status speaks of another spec";

  say("typo");
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, ARefusedPodOfAProfilesMakingNamesTheProfile) {
  FakeApi api;
  PutProfile(api, "typo", RefusedByTheServer("typo"));
  api.refuse_create[kPodsPath] = {400, "unknown field \"spec.typo\""};
  Operator op(api);
  op.Settle();
  EXPECT_NE(ConditionOf(api, api::kFailed).message.find("\"typo\""), std::string::npos)
      << ConditionOf(api, api::kFailed).message;
}

TEST(Reconciler, AJobThatOutgrowsItsNamespaceKeepsItsPodsAndGetsNoMore) {
  FakeApi api;
  Operator op(api, R"({"a": {"namespaces": ["*"], "default": true, "limits": {"workers": 3}}})");
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);

  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 5;
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("at most 3 workers"),
            std::string::npos);

  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 3;
  op.Settle();

  EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

TEST(Reconciler, AStricterProfileEndsNoJobThatHasBegunAndReplacesNothingOfIt) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["worker"]["privileged"] = true;
  Operator(
      api,
      R"({"a": {"namespaces": ["*"], "default": true, "allows": {"privileged": true, "root": true}}})")
      .Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");

  Operator(api).Settle();

  EXPECT_EQ(api.Count(kPodsPath), 3U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

json OnNodesNetwork(const char* mark, const char* ns = "team-a") {
  return {{"namespaces", {ns}},
          {"allows", {{"hostNetwork", true}}},
          {"workload",
           {{"network", {{"hostNetwork", true}}},
            {"worker", {{"env", json::array({{{"name", "MARK"}, {"value", mark}}})}}}}}};
}
std::string MarkOf(const json& pod) {
  for (const json& variable : pod.at("spec").at("containers").at(0).at("env")) {
    if (variable.at("name") == "MARK") return variable.at("value").get<std::string>();
  }
  return "";
}
// Returns the marks of all existing workers.
std::set<std::string> Marks(const FakeApi& api) {
  std::set<std::string> marks;
  for (const auto& [path, pod] : api.objects) {
    if (path.rfind(std::string(kPodsPath) + "/digits-worker", 0) == 0) marks.insert(MarkOf(pod));
  }
  return marks;
}
using Names = std::set<std::string>;

TEST(Reconciler, AJobRunsWithWhatItsProfileSetsAndItsPinSaysSo) {
  FakeApi api;
  PutProfile(api, "gpu", OnNodesNetwork("gpu"));
  api.objects[kJobPath]["spec"]["profile"] = "gpu";
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(Marks(api), Names{"gpu"});
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["spec"]["hostNetwork"], true);
  EXPECT_EQ(api.objects[kPinPath]["data"]["profile"], "gpu");
  EXPECT_EQ(api.objects[kJobPath]["status"]["profile"], "gpu");
  EXPECT_EQ(api.objects[kPinPath]["data"]["spec"]["network"]["hostNetwork"], true);
  EXPECT_EQ(ConditionOf(api, api::kChangePending).reason, "");
}

TEST(Reconciler, AJobWaitsForAProfileThatIsNotForItsNamespaceAndDoesNotEnd) {
  for (const bool elsewhere : {false, true}) {
    FakeApi api;
    if (elsewhere) PutProfile(api, "gpu", OnNodesNetwork("gpu", "team-b"));
    api.objects[kJobPath]["spec"]["profile"] = "gpu";
    Operator op(api);

    op.Settle();

    EXPECT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(api.Count(kPinsPath), 0U);
    EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
    EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
    PutProfile(api, "gpu", OnNodesNetwork("gpu"));
    op.Settle();
    EXPECT_EQ(Marks(api), Names{"gpu"});
  }
}

TEST(Reconciler, AChangeOfAProfileReachesAJobThatIsSuspendedAndResumed) {
  for (const bool restart : {false, true}) {
    FakeApi api;
    PutProfile(api, "gpu", OnNodesNetwork("before"));
    api.objects[kJobPath]["spec"]["profile"] = "gpu";
    auto op = std::make_unique<Operator>(api);
    op->Settle();

    PutProfile(api, "gpu", OnNodesNetwork("after"));
    api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
    if (restart) op = std::make_unique<Operator>(api);
    op->Settle();

    EXPECT_EQ(api.Count(kPodsPath), 4U);
    EXPECT_EQ(Marks(api), Names{"before"});
    EXPECT_EQ(ConditionOf(api, api::kChangePending).reason, api::kReasonChangedWhileRunning);

    Suspend(api, true);
    op->Settle();
    op->clock.Advance(std::chrono::seconds(31));
    op->Settle();
    ASSERT_EQ(api.Count(kPodsPath), 0U);
    Suspend(api, false);
    op->Settle();
    EXPECT_EQ(Marks(api), Names{"after"});
  }
}

TEST(Reconciler, AProfileThatIsNarrowedOrGoneStopsNewPodsAndEndsNone) {
  const json narrow = {{"namespaces", {"team-a"}}};
  const json foreign = OnNodesNetwork("gpu", "team-b");
  for (const json& to : {narrow, foreign, json()}) {
    for (const bool restart : {false, true}) {
      FakeApi api;
      PutProfile(api, "gpu", OnNodesNetwork("gpu"));
      api.objects[kJobPath]["spec"]["profile"] = "gpu";
      auto op = std::make_unique<Operator>(api);
      op->Settle();
      ASSERT_EQ(api.Count(kPodsPath), 4U);

      if (to.is_null()) {
        api.objects.erase(std::string(kProfilesPath) + "/gpu");
      } else {
        PutProfile(api, "gpu", to);
      }
      api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
      if (restart) op = std::make_unique<Operator>(api);
      op->Settle();

      EXPECT_EQ(api.Count(kPodsPath), 3U) << to;
      EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
      EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
      PutProfile(api, "gpu", OnNodesNetwork("gpu"));
      op->Settle();
      EXPECT_EQ(api.Count(kPodsPath), 4U);
      EXPECT_EQ(Marks(api), Names{"gpu"});
    }
  }
}

TEST(Reconciler, ARunKeepsTheProfileThatItBeganWith) {
  struct Row {
    const char* what;
    const char* says;
    void (*change)(FakeApi& api);
  };
  const Row table[] = {
      {"the job names another", "spec.profile",
       [](FakeApi& api) { api.objects[kJobPath]["spec"]["profile"] = "b"; }},
      {"the job names one that is not there", "spec.profile (there is no TrainingProfile \"c\"",
       [](FakeApi& api) { api.objects[kJobPath]["spec"]["profile"] = "c"; }},
      {"another default", "spec.profile",
       [](FakeApi& api) {
         ProfileOf(api, "a")["spec"].erase("default");
         json spec = OnNodesNetwork("b");
         spec["default"] = true;
         PutProfile(api, "b", spec);
       }},
      {"two defaults", "spec.profile (namespace team-a has several default TrainingProfiles (a, b)",
       [](FakeApi& api) {
         json spec = OnNodesNetwork("b");
         spec["default"] = true;
         PutProfile(api, "b", spec);
       }},
  };
  for (const Row& row : table) {
    for (const bool restart : {false, true}) {
      FakeApi api;
      json first = OnNodesNetwork("a");
      first["default"] = true;
      PutProfile(api, "a", first);
      PutProfile(api, "b", OnNodesNetwork("b"));
      auto op = std::make_unique<Operator>(api);
      op->Settle();
      ASSERT_EQ(Marks(api), Names{"a"});

      row.change(api);
      api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
      if (restart) op = std::make_unique<Operator>(api);
      op->Settle();

      EXPECT_EQ(api.Count(kPodsPath), 4U) << row.what;
      EXPECT_EQ(Marks(api), Names{"a"}) << row.what;
      const std::string& said = ConditionOf(api, api::kChangePending).message;
      EXPECT_NE(said.find(row.says), std::string::npos) << row.what << ": " << said;
    }
  }
}

TEST(Reconciler, AForgedPinUnderAForeignProfileGetsNoPod) {
  FakeApi api;
  Operator(api).Settle();
  PutProfile(api, "gpu", OnNodesNetwork("gpu", "team-b"));
  const json evil = {{"image", "i"}, {"command", {"x"}}, {"network", {{"hostNetwork", true}}}};
  api.objects[kPinPath] = ForgedPin(evil);
  api.objects[kPinPath]["data"]["profile"] = "gpu";
  Operator op(api);

  op.Settle();

  for (const auto& [path, object] : api.objects) {
    EXPECT_FALSE(path.rfind(kPodsPath, 0) == 0 && object["spec"].contains("hostNetwork")) << path;
  }
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonRefusedByProfile);
}

}  // namespace
}  // namespace ringmaster::job
