#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/job/planner/removal_plan.h"
#include "operator/kube/json_access.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

// A job whose checkpoints are deleted with it.
struct HeldJob {
  explicit HeldJob(const char* on_delete = "Delete") {
    api.objects[kJobPath]["spec"]["checkpoint"] = {
        {"volume", {{"persistentVolumeClaim", {{"claimName", "states"}}}}},
        {"onDelete", on_delete}};
  }
  json& Job() { return api.objects[kJobPath]; }
  void DeleteJob() { Job()["metadata"]["deletionTimestamp"] = "2026-11-20T11:00:00Z"; }
  bool Held() {
    const json& finalizers = kube::GetArray(Job(), {"metadata", "finalizers"});
    return std::find(finalizers.begin(), finalizers.end(), json(api::kFinalizer)) !=
           finalizers.end();
  }
  json* Remover() {
    const auto found = api.objects.find(std::string(kPodsPath) + "/digits-clean-up-job-uid");
    return found == api.objects.end() ? nullptr : &found->second;
  }

  FakeApi api;
};

TEST(Reconciler, AJobIsHeldBeforeItsFirstWorkerWhereItsCheckpointsGoWithIt) {
  HeldJob scene;
  scene.Job()["metadata"]["finalizers"] = {"example.com/other"};
  Operator op(scene.api);

  op.Settle();

  ASSERT_TRUE(scene.Held());
  EXPECT_EQ(scene.Job()["metadata"]["finalizers"].size(), 2U);
  EXPECT_EQ(scene.api.Count(kPodsPath), 4U);
  std::size_t held_at = 0, worker_at = 0, at = 0;
  for (const http::Request& request : scene.api.http.Sent()) {
    ++at;
    if (request.body.find(api::kFinalizer) != std::string::npos && held_at == 0) held_at = at;
    if (request.body.find("digits-worker-0") != std::string::npos && worker_at == 0) worker_at = at;
  }
  EXPECT_LT(held_at, worker_at);
}

TEST(Reconciler, AJobThatKeepsItsCheckpointsIsNotHeld) {
  HeldJob scene("Retain");
  Operator op(scene.api);
  op.Settle();
  EXPECT_FALSE(scene.Held());

  scene.Job()["spec"]["checkpoint"]["onDelete"] = "Delete";
  op.Settle();
  EXPECT_TRUE(scene.Held()) << "wanted only while it runs";
  EXPECT_TRUE(ConditionOf(scene.api, api::kChangePending).type.empty());

  scene.Job()["spec"]["checkpoint"]["onDelete"] = "Retain";
  op.Settle();
  EXPECT_FALSE(scene.Held());
}

// Otherwise the job would be held for ever.
TEST(Reconciler, AJobWhoseNamespaceWasExcludedIsLetGoOnceItIsDeleted) {
  for (const char* installation : {"a/lease", "b/lease"}) {
    HeldJob scene;
    Operator(scene.api, "", {.installation = "a/lease"}).Settle();
    ASSERT_TRUE(scene.Held());
    Operator op(scene.api, "", {.installation = installation, .excluded_namespaces = {"team-a"}});
    const std::size_t sent = scene.api.http.Sent().size();
    op.Settle();
    EXPECT_EQ(scene.api.http.Sent().size(), sent);
    scene.DeleteJob();

    op.Settle();

    const bool ours = std::string(installation) == "a/lease";
    EXPECT_EQ(scene.Held(), !ours);
    EXPECT_EQ(
        std::count(op.events.reasons.begin(), op.events.reasons.end(), api::kEventCheckpointsLeft),
        ours ? 1 : 0);
    EXPECT_EQ(scene.Remover(), nullptr);
  }
}

TEST(Reconciler, ADeletedJobsCheckpointsAreRemovedByAPodOnceItsPodsHaveEnded) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  ASSERT_EQ(scene.api.Count(kPodsPath), 4U);
  scene.DeleteJob();

  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_EQ(scene.api.Count(kPodsPath), 1U) << "the job's own Pods are gone";
  EXPECT_TRUE(scene.Held());
  EXPECT_EQ(ConditionOf(scene.api, api::kCheckpointsRemoved).status, api::ConditionStatus::kFalse);
  EXPECT_EQ((*scene.Remover())["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "states");

  (*scene.Remover())["status"] = {{"phase", "Succeeded"}};
  op.Settle();

  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(scene.Remover(), nullptr);
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsRemoved), 1);
}

TEST(Reconciler, AReleasedJobThatTheStoreStillShowsHeldIsLeftAlone) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  op.Settle();
  const json held = scene.Job();
  ASSERT_NE(scene.Remover(), nullptr);
  (*scene.Remover())["status"] = {{"phase", "Succeeded"}};
  op.Settle();
  ASSERT_FALSE(scene.Held());
  ASSERT_EQ(scene.Remover(), nullptr);

  scene.Job() = held;
  op.Settle();

  EXPECT_EQ(scene.Remover(), nullptr);
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsRemoved), 1);
}

TEST(Reconciler, APodOfADeletedJobWhoseDeletionThrewIsDeletedLater) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  op.Sync();
  const auto serve = scene.api.http.on_send;
  scene.api.http.on_send = [&](const http::Request& request) {
    if (request.method == http::Method::kDelete) throw std::length_error("too long");
    return serve(request);
  };

  const auto result = op.reconciler.Reconcile("team-a/digits");

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInternal);
  EXPECT_NE(result.error().message.find("team-a/digits"), std::string::npos);
  scene.api.http.on_send = serve;
  op.Settle();
  EXPECT_NE(scene.Remover(), nullptr);
}

TEST(Reconciler, AnEndedJobsCheckpointsAreRemovedThoughItsTextsWereNotKept) {
  HeldJob scene;
  Operator(scene.api).Settle();
  json ended = {{"type", "Succeeded"},
                {"status", "True"},
                {"reason", "Completed"},
                {"message", ""},
                {"lastTransitionTime", "2026-11-20T10:30:00Z"}};
  scene.Job()["status"]["conditions"] = json::array({ended});
  Operator op(scene.api);
  op.Settle();
  EXPECT_EQ(op.jobs.Get("team-a/digits")->spec.checkpoint->volume_json, "");
  scene.DeleteJob();

  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_EQ((*scene.Remover())["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "states");
}

TEST(Reconciler, TheVolumeOfTheRunCountsWhereAnotherWasAskedForMeanwhile) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.Job()["spec"]["checkpoint"]["volume"]["persistentVolumeClaim"]["claimName"] = "others";
  op.Settle();
  scene.DeleteJob();

  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_EQ((*scene.Remover())["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "states");
}

TEST(Reconciler, ANewOperatorCreatesThePodAgainAndIgnoresAnyOther) {
  HeldJob scene;
  Operator(scene.api).Settle();
  scene.DeleteJob();
  Operator(scene.api).Settle();
  ASSERT_NE(scene.Remover(), nullptr);
  const json first = (*scene.Remover())["metadata"]["uid"];
  (*scene.Remover())["status"] = {{"phase", "Succeeded"}};

  Operator op(scene.api);
  op.Settle();

  ASSERT_NE(scene.Remover(), nullptr);
  EXPECT_NE((*scene.Remover())["metadata"]["uid"], first);
  EXPECT_TRUE(scene.Held());
}

TEST(Reconciler, ANamespaceThatGoesIsNotKeptByACheckpoint) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  scene.api.refuse_create[kPodsPath] = {
      403, "unable to create new content in namespace team-a because it is being terminated"};

  op.Settle();

  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsLeft), 1);
}

TEST(Reconciler, AStricterProfileKeepsNoDeletedJob) {
  HeldJob scene;
  Operator(scene.api).Settle();
  scene.DeleteJob();

  Operator op(
      scene.api,
      R"({"restricted": {"namespaces": ["*"], "limits": {"imagePrefixes": ["registry.example.com/"]}}})");
  op.Settle();

  EXPECT_EQ(scene.Remover(), nullptr);
  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsLeft), 1);
}

TEST(Reconciler, ADeletedJobSaysWhyThePodThatRemovesItsCheckpointsIsNotAdmittedYet) {
  struct Row {
    std::pair<int, std::string> refusal;
    const char* reason;
  };
  const Row table[] = {
      {{400, "admission webhook \"w\" denied the request: no signature"}, api::kReasonForbidden},
      {{500, "Internal error occurred: failed calling webhook \"w\": refused"},
       api::kReasonApiError},
      {{429, "too many requests"}, api::kReasonApiError},
      {{504, "the server was too slow"}, api::kReasonApiError},
  };
  for (const Row& row : table) {
    HeldJob scene;
    Operator op(scene.api);
    op.Settle();
    scene.DeleteJob();
    scene.api.refuse_create[kPodsPath] = row.refusal;
    op.Settle();
    EXPECT_TRUE(scene.Held()) << row.refusal.second;
    const api::Condition waits = ConditionOf(scene.api, api::kCheckpointsRemoved);
    EXPECT_EQ(waits.reason, row.reason) << row.refusal.second;
    EXPECT_NE(waits.message.find(row.refusal.second), std::string::npos) << waits.message;

    scene.api.refuse_create.clear();
    op.clock.Advance(std::chrono::seconds(61));
    op.Settle();

    EXPECT_NE(scene.Remover(), nullptr) << row.refusal.second;
  }
}

TEST(Reconciler, WithoutTheRightToDeleteAPodADeletedJobIsStillReleasedAtTheLimit) {
  HeldJob scene;
  Operator op(scene.api);
  op.Settle();
  scene.DeleteJob();
  scene.api.refuse_delete = std::string(kPodsPath) + "/digits-worker-0";
  op.Settle();
  ASSERT_TRUE(scene.Held());

  op.clock.Advance(kRemovalLimit);
  op.Settle();

  EXPECT_FALSE(scene.Held());
  EXPECT_EQ(std::ranges::count(op.events.reasons, api::kEventCheckpointsLeft), 1);
}

}  // namespace
}  // namespace ringmaster::job
