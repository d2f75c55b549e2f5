#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "common/json/json.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

std::set<std::string> RevisionsOfPods(const FakeApi& api) {
  std::set<std::string> revisions;
  for (const auto& [path, object] : api.objects) {
    if (path.rfind(kPodsPath, 0) == 0) {
      revisions.insert(kube::GetString(object, {"metadata", "labels", api::kLabelRevision}));
    }
  }
  return revisions;
}
std::set<std::string> ImagesOfPods(const FakeApi& api) {
  std::set<std::string> images;
  for (const auto& [path, object] : api.objects) {
    if (path.rfind(kPodsPath, 0) != 0) continue;
    for (const json& container : kube::GetArray(object, {"spec", "containers"})) {
      images.insert(kube::GetString(container, {"image"}));
    }
  }
  return images;
}
bool AnyPodIsEvil(const FakeApi& api) {
  return std::any_of(api.objects.begin(), api.objects.end(), [](const auto& entry) {
    return entry.first.rfind(kPodsPath, 0) == 0 &&
           kube::Find(entry.second, {"spec", "hostPID"}) != nullptr;
  });
}

TEST(Reconciler, AJobsPodsBearTheRevisionOfTheTextThatIsPinned) {
  FakeApi api;
  TemplateOf(api) = kHarmless;
  Operator op(api);

  op.Settle();

  ASSERT_EQ(api.Count(kPinsPath), 1U);
  const json& pin = api.objects[kPinPath];
  EXPECT_EQ(pin["metadata"]["ownerReferences"][0]["uid"], "job-uid");
  EXPECT_EQ(pin["data"]["spec"]["worker"]["template"], kHarmless);
  EXPECT_EQ(
      RevisionsOfPods(api),
      std::set<std::string>{pin["metadata"]["labels"][api::kLabelRevision].get<std::string>()});
  for (const http::Request& request : api.http.Sent()) {
    EXPECT_FALSE(request.method == http::Method::kGet && request.path.starts_with(kPinPath))
        << "the answer to its creation had all of it";
  }
}

// Returns the tools images of all Pods; "" for a Pod without one.
std::set<std::string> ToolsImagesOfPods(const FakeApi& api) {
  std::set<std::string> images;
  for (const auto& [path, object] : api.objects) {
    if (path.rfind(kPodsPath, 0) != 0) continue;
    const json& containers = kube::GetArray(object, {"spec", "initContainers"});
    images.insert(containers.empty() ? "" : kube::GetString(containers[0], {"image"}));
  }
  return images;
}

TEST(Reconciler, ARunKeepsItsToolsImageThroughAnUpgradeAndTheNextOneTakesTheNewOne) {
  FakeApi api;
  auto op = std::make_unique<Operator>(api, "", Scope{}, NetworkIsolation{},
                                       Injection{.image = "tools:1", .own_images = {}});
  op->Settle();
  ASSERT_EQ(ToolsImagesOfPods(api), std::set<std::string>{"tools:1"});

  op = std::make_unique<Operator>(api, "", Scope{}, NetworkIsolation{},
                                  Injection{.image = "tools:2", .own_images = {"i"}});
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  op->Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(ToolsImagesOfPods(api), std::set<std::string>{"tools:1"});

  op = std::make_unique<Operator>(api, "", Scope{}, NetworkIsolation{},
                                  Injection{.image = "tools:2", .own_images = {}});
  Suspend(api, true);
  op->Settle();
  op->clock.Advance(std::chrono::seconds(31));
  op->Settle();
  ASSERT_EQ(api.Count(kPodsPath), 0U);
  Suspend(api, false);
  op->Settle();
  EXPECT_EQ(ToolsImagesOfPods(api), std::set<std::string>{"tools:2"});
}

TEST(Reconciler, AJobWithoutAnImageIsRefusedWhereTheOperatorHasNone) {
  FakeApi api;
  api.objects[kJobPath]["spec"].erase("image");
  auto op = std::make_unique<Operator>(api);
  op->Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  const api::Condition stalled = ConditionOf(api, api::kStalled);
  EXPECT_EQ(stalled.reason, api::kReasonInvalidSpec);
  for (const char* part : {"spec.image", "--worker-image", "workerImage"}) {
    EXPECT_NE(stalled.message.find(part), std::string::npos) << stalled.message;
  }
}

TEST(Reconciler, AJobThatAsksForOurProgramsIsRefusedWhereTheOperatorHasNone) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["inject"] = "InitContainer";
  auto op = std::make_unique<Operator>(api);
  op->Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  const api::Condition stalled = ConditionOf(api, api::kStalled);
  EXPECT_EQ(stalled.reason, api::kReasonInvalidSpec);
  for (const char* part : {"spec.inject", "--tools-image", "toolsImage"}) {
    EXPECT_NE(stalled.message.find(part), std::string::npos) << stalled.message;
  }

  op = std::make_unique<Operator>(api, "", Scope{}, NetworkIsolation{},
                                  Injection{.image = "tools:1", .own_images = {}});
  op->Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

// Tests an attacker who changes the template after it was checked, while the job is suspended.
TEST(Reconciler, ATemplateIsJudgedAsItIsWhenItsPodsAreMade) {
  FakeApi api;
  TemplateOf(api) = kHarmless;
  Suspend(api, true);
  Operator op(api);
  op.Settle();
  ASSERT_EQ(ConditionOf(api, api::kSuspended).status, api::ConditionStatus::kTrue);

  TemplateOf(api) = kEvil;
  Suspend(api, false);
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kStalled).reason, api::kReasonInvalidSpec);

  TemplateOf(api) = kHarmless;
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(ConditionOf(api, api::kStalled).reason, "");
}

TEST(Reconciler, AStatusProvesNothingAboutATemplate) {
  for (const bool by_policy : {false, true}) {
    FakeApi api;
    if (by_policy) {
      api.objects[kJobPath]["spec"]["worker"]["privileged"] = true;
    } else {
      TemplateOf(api) = kEvil;
    }
    api.objects[kJobPath]["status"] = {{"internal", {{"launcherTerm", 7}}}, {"epoch", 3}};
    Operator op(api);

    op.Settle();

    EXPECT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(ConditionOf(api, api::kStalled).reason, by_policy ? "" : api::kReasonInvalidSpec);
  }
}

TEST(Reconciler, AChangeWhileAJobRunsIsRefusedAndNamedAndItsNewPodsAreMadeFromTheSameText) {
  for (const bool restart : {false, true}) {
    FakeApi api;
    TemplateOf(api) = kHarmless;
    auto op = std::make_unique<Operator>(api);
    op->Settle();
    const std::set<std::string> revision = RevisionsOfPods(api);

    TemplateOf(api) = kEvil;
    api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
    if (restart) op = std::make_unique<Operator>(api);
    op->Settle();

    EXPECT_EQ(api.Count(kPodsPath), 4U);
    EXPECT_FALSE(AnyPodIsEvil(api));
    EXPECT_EQ(RevisionsOfPods(api), revision);
    const api::Condition refused = ConditionOf(api, api::kChangePending);
    EXPECT_EQ(refused.status, api::ConditionStatus::kTrue);
    EXPECT_NE(refused.message.find("spec.worker.template.spec"), std::string::npos);
    EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
    EXPECT_EQ(
        std::count(op->events.reasons.begin(), op->events.reasons.end(), api::kEventChangePending),
        1);

    TemplateOf(api) = kHarmless;
    op->Settle();

    EXPECT_EQ(ConditionOf(api, api::kChangePending).status, api::ConditionStatus::kFalse);
  }
}

TEST(Reconciler, AnotherDefaultImageSinceAnUpgradeIsNoChangeOfAJobThatNamesNone) {
  FakeApi api;
  api.objects[kJobPath]["spec"].erase("image");
  auto op = std::make_unique<Operator>(api);
  op->default_image = "worker:1";
  op->Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);

  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  op = std::make_unique<Operator>(api);
  op->default_image = "worker:2";
  op->Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(RevisionsOfPods(api).size(), 1U);
  EXPECT_EQ(ImagesOfPods(api), std::set<std::string>{"worker:1"});
  EXPECT_EQ(ConditionOf(api, api::kChangePending).type, "");

  TemplateOf(api) = kHarmless;
  op->Settle();

  const std::string said = ConditionOf(api, api::kChangePending).message;
  EXPECT_NE(said.find("spec.worker.template"), std::string::npos);
  EXPECT_EQ(said.find("spec.image"), std::string::npos);
}

TEST(Reconciler, AnImageThatIsTakenOutOfASpecOrPutIntoItIsAChangeThatWaits) {
  for (const bool named_first : {true, false}) {
    for (const bool restart : {false, true}) {
      FakeApi api;
      json& spec = api.objects[kJobPath]["spec"];
      if (!named_first) spec.erase("image");
      auto op = std::make_unique<Operator>(api);
      op->default_image = "worker:1";
      op->Settle();
      const std::set<std::string> images = ImagesOfPods(api);
      ASSERT_EQ(images, std::set<std::string>{named_first ? "i" : "worker:1"});

      if (named_first) {
        spec.erase("image");
      } else {
        spec["image"] = "i";
      }
      api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
      if (restart) {
        op = std::make_unique<Operator>(api);
        op->default_image = "worker:1";
      }
      op->Settle();

      EXPECT_EQ(ConditionOf(api, api::kChangePending).status, api::ConditionStatus::kTrue);
      EXPECT_NE(ConditionOf(api, api::kChangePending).message.find("spec.image"),
                std::string::npos);
      EXPECT_EQ(api.Count(kPodsPath), 4U);
      EXPECT_EQ(ImagesOfPods(api), images);
    }
  }
}

TEST(Reconciler, WithAnAllowedChangeASuspendedJobGoesOn) {
  for (const bool restart : {false, true}) {
    FakeApi api;
    auto op = std::make_unique<Operator>(api);
    op->Settle();
    const std::set<std::string> before = RevisionsOfPods(api);
    TemplateOf(api) = kHarmless;
    Suspend(api, true);
    op->Settle();
    op->clock.Advance(std::chrono::seconds(31));
    op->Settle();
    ASSERT_EQ(ConditionOf(api, api::kSuspended).status, api::ConditionStatus::kTrue);
    ASSERT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(api.Count(kPinsPath), 0U) << "no run, no text of a run";

    if (restart) op = std::make_unique<Operator>(api);
    Suspend(api, false);
    op->Settle();

    EXPECT_EQ(api.Count(kPodsPath), 4U);
    EXPECT_EQ(RevisionsOfPods(api).size(), 1U);
    EXPECT_NE(RevisionsOfPods(api), before);
    EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["metadata"]["labels"]["a"],
              "b");
    EXPECT_NE(ConditionOf(api, api::kChangePending).status, api::ConditionStatus::kTrue);
  }
}

TEST(Reconciler, ASuspendedJobWhoseTemplateIsNotAllowedGetsNoPodAndIsNotEnded) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  Suspend(api, true);
  op.Settle();
  op.clock.Advance(std::chrono::seconds(31));
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 0U);

  TemplateOf(api) = kEvil;
  Suspend(api, false);
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 0U);
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("spec.worker.template.spec.hostPID"),
            std::string::npos);

  TemplateOf(api) = kHarmless;
  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, ASuspendedJobIsRemadeFromTheTextsThatItsResumptionBrings) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["command"] = {"ringmaster-train"};
  TemplateOf(api) = kHarmless;
  Operator op(api);
  op.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);
  api.objects[kJobPath]["spec"]["suspend"] = true;
  op.clock.Advance(std::chrono::minutes(3));
  op.Settle();
  op.clock.Advance(std::chrono::minutes(3));
  op.Settle();
  ASSERT_TRUE(api::IsTrue(StatusOf(api).conditions, api::kSuspended));
  EXPECT_EQ(op.jobs.Get("team-a/digits")->spec.worker.template_json, "");
  const std::string said = ConditionOf(api, api::kSuspended).message;

  // A new operator has no memory of the earlier run.
  Operator next(api);
  next.Settle();
  EXPECT_EQ(next.jobs.Get("team-a/digits")->spec.worker.template_json, "");
  EXPECT_EQ(ConditionOf(api, api::kSuspended).message, said);
  EXPECT_EQ(ConditionOf(api, api::kChangePending).type, "");
  api.objects[kJobPath]["spec"]["suspend"] = false;
  next.Settle();

  ASSERT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-worker-0"]["metadata"]["labels"]["a"],
            "b");
}

TEST(Reconciler, AForgedPinWithWhatIsRefusedGetsNoPod) {
  for (const bool begun : {false, true}) {
    FakeApi api;
    if (begun) {
      Operator(api).Settle();
      api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
    }
    api.objects[kPinPath] =
        ForgedPin({{"image", "i"}, {"command", {"x"}}, {"worker", {{"template", kEvil}}}});
    Operator op(api);

    op.Settle();

    EXPECT_FALSE(AnyPodIsEvil(api));
    EXPECT_NE(
        ConditionOf(api, api::kWorkersReady).message.find("spec.worker.template.spec.hostPID"),
        std::string::npos);
  }
}

TEST(Reconciler, AForgedPinWithWhatIsAllowedGetsAWorldOfItsOwnText) {
  FakeApi api;
  Operator(api).Settle();
  const std::set<std::string> before = RevisionsOfPods(api);
  api.objects[kPinPath] =
      ForgedPin({{"image", "i"}, {"command", {"x"}}, {"worker", {{"template", kHarmless}}}});
  Operator op(api);

  op.Settle();

  EXPECT_EQ(RevisionsOfPods(api).size(), 1U) << "two texts never meet in one world";
  EXPECT_NE(RevisionsOfPods(api), before);
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, WhatIsNoPinStandsInTheWayOfItsJobAloneAndIsNamed) {
  json of_nobody = ForgedPin(json::object());
  of_nobody["metadata"].erase("ownerReferences");
  // The pin's name contains this job's UID, so no other job's clean-up removes a foreign pin.
  const json of_namesake = ForgedPin(json::object(), "earlier-uid");
  for (const json& foreign :
       {of_nobody, of_namesake, ForgedPin("none"), ForgedPin({{"command", 7}})}) {
    FakeApi api;
    api.objects[kPinPath] = foreign;
    Operator op(api);

    op.Settle();

    EXPECT_EQ(api.Count(kPodsPath), 0U);
    EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonNameConflict);
    EXPECT_NE(
        ConditionOf(api, api::kWorkersReady).message.find("ControllerRevision digits-run-job-uid"),
        std::string::npos);
    EXPECT_EQ(api.objects[kPinPath], foreign);
  }
}

TEST(Reconciler, ADeletedPinComesBackWithTheTextOfTheRunningPods) {
  FakeApi api;
  Operator(api).Settle();
  const json pin = api.objects[kPinPath];
  const json launcher = api.objects[std::string(kPodsPath) + "/digits-launcher-1"];
  api.objects.erase(kPinPath);

  Operator(api).Settle();

  EXPECT_EQ(api.objects[kPinPath]["data"], pin["data"]);
  EXPECT_EQ(api.objects[std::string(kPodsPath) + "/digits-launcher-1"], launcher);
}

// A field that a random template may have, as a JSON pointer and a value.
struct Fragment {
  const char* pointer;
  const char* value;
  bool allowed;
};
constexpr Fragment kFragments[] = {
    {"/metadata/labels/team", R"("vision")", true},
    {"/metadata/annotations/note", R"("x")", true},
    {"/spec/nodeSelector/gpu", R"("yes")", true},
    {"/spec/containers/0/env/0", R"({"name": "A", "value": "1"})", true},
    {"/spec/tolerations/0", R"({"operator": "Exists"})", true},
    {"/spec/volumes/0", R"({"name": "v", "emptyDir": {}})", true},
    {"/spec/hostPID", "true", false},
    {"/spec/hostNetwork", "true", false},
    {"/spec/nodeName", R"("n")", false},
    {"/spec/serviceAccountName", R"("default")", false},
    {"/spec/securityContext/runAsUser", "0", false},
    {"/spec/containers/0/securityContext/privileged", "true", false},
    {"/spec/containers/0/ports/0/hostPort", "1", false},
    {"/spec/initContainers/0/securityContext/privileged", "true", false},
    {"/spec/volumes/0/hostPath/path", R"("/")", false},
};

json RandomTemplate(std::mt19937& random, bool& allowed) {
  json pod_template = json::object();
  allowed = true;
  // Half of the templates have no forbidden fields; otherwise almost none would be allowed.
  const bool may_be_refused = random() % 2 == 0;
  for (const Fragment& fragment : kFragments) {
    if (random() % 4 != 0 || (!fragment.allowed && !may_be_refused)) continue;
    const json::json_pointer at(fragment.pointer);
    if (pod_template.contains(at)) continue;
    pod_template[at] = json::parse(fragment.value);
    allowed = allowed && fragment.allowed;
  }
  if (kube::Find(pod_template, {"spec", "containers"}) != nullptr) {
    pod_template["spec"]["containers"][0]["name"] = "worker";
  }
  return pod_template;
}

void ExpectHarmless(const json& pod, const std::string& what) {
  for (const Fragment& fragment : kFragments) {
    const json::json_pointer at(fragment.pointer);
    if (fragment.allowed || !pod.contains(at)) continue;
    EXPECT_NE(pod.at(at), json::parse(fragment.value)) << what << ": " << fragment.pointer;
  }
}

// Changes random templates twice each, at random times in the life of the job, and with the same
// or a new operator.
TEST(Reconciler, NoSequenceOfChangesGetsAPodThatIsRefusedOrTwoTextsIntoOneWorld) {
  std::size_t pods = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const std::string what = "seed " + std::to_string(seed);
    FakeApi api;
    auto op = std::make_unique<Operator>(api);
    for (int step = 0; step < 3; ++step) {
      bool allowed = false;
      TemplateOf(api) = RandomTemplate(random, allowed);
      if (random() % 2 == 0) Suspend(api, random() % 2 == 0);
      if (random() % 3 == 0) op = std::make_unique<Operator>(api);
      if (random() % 2 == 0) api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
      op->Settle();
      op->clock.Advance(std::chrono::seconds(31));
      op->Settle();

      EXPECT_LE(RevisionsOfPods(api).size(), 1U) << what;
      if (!allowed && step == 0) {
        EXPECT_EQ(api.Count(kPodsPath), 0U) << what;
      }
    }
    for (const http::Request& request : api.http.Sent()) {
      if (request.method != http::Method::kPost || request.path.rfind(kPodsPath, 0) != 0) continue;
      ExpectHarmless(*ParseJson(request.body), what);
      ++pods;
    }
  }
  EXPECT_GT(pods, 50U) << "or nothing was tested";
}

}  // namespace
}  // namespace ringmaster::job
