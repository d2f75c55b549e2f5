#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

TEST(Reconciler, TwoInstallationsNeverActOnOneJob) {
  FakeApi api;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  first.Settle();
  ASSERT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(StatusOf(api).installation, "a/lease");
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  const std::size_t sent = api.http.Sent().size();

  second.Settle();
  EXPECT_EQ(api.http.Sent().size(), sent);

  api.objects.erase(std::string(kServicesPath) + "/digits-launcher");  // the status names a/lease
  second.Settle();
  EXPECT_EQ(api.http.Sent().size(), sent);

  first.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

TEST(Reconciler, AnInstallationThatRefusesAJobLeavesItToOneThatAcceptsIt) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator strict(api, "", {.installation = "a/lease"});
  Operator permissive(api, kAllowsHostNetwork, {.installation = "b/lease"});

  strict.Settle();
  EXPECT_FALSE(api.objects[kJobPath].contains("status"));
  permissive.Settle();
  strict.clock.Advance(std::chrono::seconds(2));
  strict.Settle();

  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(StatusOf(api).installation, "b/lease");
}

TEST(Reconciler, AJobThatAllRefuseIsHeldUpByTheFirstToTakeIt) {
  FakeApi api;
  TemplateOf(api) = kEvil;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  for (Operator* op : {&first, &second}) {
    op->Settle();
    op->clock.Advance(std::chrono::seconds(2));
  }
  second.Settle();
  const std::size_t sent = api.http.Sent().size();
  first.Settle();

  EXPECT_EQ(ConditionOf(api, api::kStalled).reason, api::kReasonInvalidSpec);
  EXPECT_EQ(StatusOf(api).installation, "b/lease");
  EXPECT_EQ(api.http.Sent().size(), sent);
  EXPECT_EQ(api.Count(kPodsPath), 0U);
}

TEST(Reconciler, BeforeARefusalTheApiServerIsAskedWhetherAnotherHasTheJob) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["network"] = {{"hostNetwork", true}};
  Operator strict(api, "", {.installation = "a/lease"});
  strict.Settle();
  strict.clock.Advance(std::chrono::seconds(2));
  strict.Sync();
  (void)strict.reconciler.Reconcile("team-a/digits");
  ASSERT_EQ(StatusOf(api).installation, "a/lease");
  api.objects[std::string(kServicesPath) + "/digits-launcher"] = {
      {"metadata",
       {{"name", "digits-launcher"},
        {"namespace", "team-a"},
        {"uid", "s"},
        {"resourceVersion", "1"},
        {"annotations", {{api::kAnnotationInstallation, "b/lease"}}},
        {"ownerReferences",
         {{{"apiVersion", api::kApiVersion},
           {"kind", api::kKind},
           {"name", "digits"},
           {"uid", "job-uid"},
           {"controller", true}}}}}}};
  strict.Sync();
  strict.services.Swap("1");  // its watch has not shown the Service yet

  (void)strict.reconciler.Reconcile("team-a/digits");

  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
}

TEST(Reconciler, WhoWritesTheStatusOfASuspendedJobHasIt) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["suspend"] = true;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  first.Settle();
  const std::size_t sent = api.http.Sent().size();

  second.Settle();

  EXPECT_EQ(StatusOf(api).installation, "a/lease");
  EXPECT_EQ(ConditionOf(api, api::kSuspended).status, api::ConditionStatus::kTrue);
  EXPECT_EQ(api.http.Sent().size(), sent);
}

TEST(Reconciler, AnAnnotationOnAJobMovesItToTheInstallationThatItNames) {
  const std::string service = std::string(kServicesPath) + "/digits-launcher";
  FakeApi api;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  first.Settle();
  api.objects[kJobPath]["metadata"]["annotations"] = {{api::kAnnotationInstallation, "b/lease"}};
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");

  first.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 3U);
  second.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
  EXPECT_EQ(StatusOf(api).installation, "b/lease");
  EXPECT_EQ(api.objects[service]["metadata"]["annotations"][api::kAnnotationInstallation],
            "b/lease");

  // From now on, the annotation is not needed, because the status names the installation.
  api.objects[kJobPath]["metadata"].erase("annotations");
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  first.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 3U);
  second.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

// A suspended job keeps its Service, and so may an ended one.
TEST(Reconciler, AnAnnotationMovesAJobThatHasNoPodsForGoodToo) {
  const std::string service = std::string(kServicesPath) + "/digits-launcher";
  for (const bool ended : {false, true}) {
    FakeApi api;
    Operator first(api, "", {.installation = "a/lease"});
    Operator second(api, "", {.installation = "b/lease"});
    first.Settle();
    ASSERT_TRUE(api.objects.contains(service));
    std::erase_if(api.objects,
                  [](const auto& entry) { return entry.first.starts_with(kPodsPath); });
    if (ended) {
      api.objects[kJobPath]["status"]["conditions"] = {
          {{"type", api::kFailed}, {"status", "True"}, {"reason", "R"}, {"message", ""}}};
    } else {
      api.objects[kJobPath]["spec"]["suspend"] = true;
    }
    first.Settle();
    api.objects[kJobPath]["metadata"]["annotations"] = {{api::kAnnotationInstallation, "b/lease"}};

    second.Settle();
    EXPECT_EQ(StatusOf(api).installation, "b/lease") << ended;
    EXPECT_EQ(api.objects[service]["metadata"]["annotations"][api::kAnnotationInstallation],
              "b/lease")
        << ended;
    api.objects[kJobPath]["metadata"].erase("annotations");
    const std::size_t sent = api.http.Sent().size();
    first.Settle();
    EXPECT_EQ(api.http.Sent().size(), sent) << ended;
  }
}

TEST(Reconciler, AnAnnotationMovesAJobThatHasNoServiceToo) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["suspend"] = true;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"});
  first.Settle();
  api.objects[kJobPath]["metadata"]["annotations"] = {{api::kAnnotationInstallation, "b/lease"}};

  second.Settle();
  api.objects[kJobPath]["metadata"].erase("annotations");
  const std::size_t sent = api.http.Sent().size();
  first.Settle();

  EXPECT_EQ(StatusOf(api).installation, "b/lease");
  EXPECT_EQ(api.http.Sent().size(), sent);
}

TEST(Reconciler, AnInstallationThatLosesTheRaceForAJobLeavesNoPod) {
  FakeApi api;
  Operator first(api, "", {.installation = "a/lease"});
  Operator second(api, "", {.installation = "b/lease"}, kIsolated);
  second.Sync();  // fills the stores before the first installation creates objects
  first.Settle();
  const std::string launcher = std::string(kPodsPath) + "/digits-launcher-1";
  api.objects.erase(launcher);

  (void)second.reconciler.Reconcile("team-a/digits");

  EXPECT_FALSE(api.objects.contains(launcher));
  EXPECT_EQ(api.Count(kPoliciesPath), 0U);
  EXPECT_EQ(StatusOf(api).installation, "a/lease");
}

TEST(Reconciler, ExcludedNamespacesAreLeftAlone) {
  FakeApi api;
  Operator op(api, "", {.excluded_namespaces = {"team-a"}});

  op.Settle();

  EXPECT_TRUE(api.http.Sent().empty());
}

TEST(Reconciler, JobsOfAnotherControllerAreLeftAlone) {
  for (const auto& [manager, ours] : std::vector<std::pair<const char*, bool>>{
           {"", true}, {api::kManagedByOperator, true}, {"kueue.x-k8s.io/multikueue", false}}) {
    FakeApi api;
    api.objects[kJobPath]["spec"]["managedBy"] = manager;
    Operator op(api);

    op.Settle();

    EXPECT_EQ(!api.http.Sent().empty(), ours) << manager;
    EXPECT_EQ(!op.events.reasons.empty(), ours) << manager;
  }
}

}  // namespace
}  // namespace ringmaster::job
