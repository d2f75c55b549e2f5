#include "operator/job/controller/reconciler.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

TEST(Reconciler, MakesAJobsObjectsAndThenRests) {
  FakeApi api;
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.Count(kPodsPath), 4u);
  EXPECT_EQ(api.Count(kServicesPath), 2u);
  EXPECT_EQ(api.Count("/api/v1/namespaces/team-a/secrets"), 1u);
  EXPECT_EQ(api.Count(kPinsPath), 1u);
  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-launcher-1"));
  EXPECT_TRUE(api::IsTrue(StatusOf(api).conditions, api::kCreated));
  EXPECT_EQ(op.events.reasons, std::vector<std::string>{api::kEventCreated});
}

TEST(Reconciler, FirstStatusHasItsZeros) {
  FakeApi api;
  api.objects[kJobPath]["status"] = {{"observedGeneration", -1}};  // the default of the CRD
  Operator op(api);

  op.Settle();

  EXPECT_EQ(api.objects[kJobPath]["status"]["workers"]["ready"], 0);
}

TEST(Reconciler, AKillAfterAnyWriteLeavesNoDuplicate) {
  for (int writes = 0; writes < 13; ++writes) {
    FakeApi api;
    api.writes_left = writes;
    Operator(api).Settle();
    api.writes_left = -1;

    Operator(api).Settle();

    EXPECT_EQ(api.Count(kServicesPath), 2u) << writes;
    EXPECT_EQ(api.Count("/api/v1/namespaces/team-a/secrets"), 1u) << writes;
    EXPECT_EQ(api.Count(kPinsPath), 1u) << writes;
    std::size_t workers = 0;
    std::size_t launchers = 0;
    for (const auto& [path, object] : api.objects) {
      const std::string role = kube::GetString(object, {"metadata", "labels", api::kLabelRole});
      workers += role == api::kRoleWorker ? 1 : 0;
      launchers += role == api::kRoleLauncher ? 1 : 0;
    }
    EXPECT_EQ(workers, 3u) << writes;
    EXPECT_EQ(launchers, 1u) << writes;
    const std::string launcher =
        std::string(kPodsPath) + "/" + api::LauncherPodName("digits", StatusOf(api).launcher_term);
    EXPECT_TRUE(api.objects.contains(launcher)) << writes;
  }
}

TEST(Reconciler, ForeignObjectsAreNeverAdopted) {
  for (const char* name : {"digits", "digits-launcher"}) {
    FakeApi api;
    const std::string path = std::string(kServicesPath) + "/" + name;
    const json foreign{
        {"metadata",
         {{"name", name}, {"namespace", "team-a"}, {"uid", "x"}, {"resourceVersion", "5"}}},
        {"spec", {{"clusterIP", "10.9.9.9"}}}};
    api.objects[path] = foreign;
    Operator op(api);

    op.Settle();

    const auto status = StatusOf(api);
    const api::Condition* ready = api::FindCondition(status.conditions, api::kWorkersReady);
    ASSERT_NE(ready, nullptr);
    EXPECT_EQ(ready->reason, api::kReasonNameConflict);
    EXPECT_EQ(api.objects[path], foreign);
    EXPECT_EQ(api.Count(kPodsPath), 0u);
  }
}

TEST(Reconciler, JobOfTheSameNameIsANewJob) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  api.objects[kJobPath]["metadata"]["uid"] = "another-uid";
  api.objects[kJobPath]["status"] = nullptr;
  api.objects.erase(std::string(kServicesPath) + "/digits");
  api.objects.erase(std::string(kServicesPath) + "/digits-launcher");

  op.Settle();

  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-3"));
  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-launcher-2"));
  EXPECT_EQ(api.Count("/api/v1/namespaces/team-a/secrets"), 2u);
}

TEST(Reconciler, AJobCreatedSuspendedMakesNoObject) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["suspend"] = true;
  Operator op(api);

  op.Settle();
  const std::size_t pods = api.Count(kPodsPath) + api.Count(kServicesPath);
  api.objects[kJobPath]["spec"]["suspend"] = false;
  op.Settle();

  EXPECT_EQ(pods, 0u);
  EXPECT_EQ(api.Count(kPodsPath), 4u);
  EXPECT_EQ(op.events.reasons, (std::vector<std::string>{api::kEventSuspended, api::kEventResumed,
                                                         api::kEventCreated}));
}

TEST(Reconciler, AJobIsDeletedWhenItsTimeToLiveIsOver) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {422, "Pod is invalid"};
  api.objects[kJobPath]["spec"]["runPolicy"] = {{"ttlSecondsAfterFailure", 60}};
  Operator op(api);
  op.Settle();
  ASSERT_TRUE(api::IsTerminal(StatusOf(api)));

  op.clock.Advance(std::chrono::seconds(59));
  op.Settle();
  const bool kept = api.objects.contains(kJobPath);
  op.clock.Advance(std::chrono::seconds(1));
  op.Settle();

  EXPECT_TRUE(kept);
  EXPECT_FALSE(api.objects.contains(kJobPath));
}

TEST(Reconciler, AChangeCountsWhereItWasWrittenAndOnce) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {422, "Pod is invalid"};
  Operator op(api);
  op.Sync();
  (void)op.reconciler.Reconcile("team-a/digits");
  op.Sync();
  api.objects[kJobPath]["metadata"]["resourceVersion"] = "99";  // another client wrote first

  (void)op.reconciler.Reconcile("team-a/digits");
  EXPECT_TRUE(op.ends.reasons.empty());
  op.Settle();
  Operator successor(api);
  successor.Settle();

  EXPECT_EQ(op.ends.reasons, std::vector<std::string>{api::kReasonInvalidSpec});
  EXPECT_TRUE(successor.ends.reasons.empty());
}

// Tests times of an earlier leader whose clock was an hour ahead. Without a correction, the next
// worker would be created only after that hour.
TEST(Reconciler, TimesOfTheFutureAreCorrectedAndDelayNoReplacement) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  json& status = api.objects[kJobPath]["status"];
  status["failures"] = {{{"podUID", "a"}, {"reason", "Error"}, {"time", "2026-11-20T11:02:00Z"}},
                        {{"podUID", "b"}, {"reason", "Error"}, {"time", "2026-11-20T11:01:00Z"}},
                        {{"podUID", "c"}, {"reason", "Error"}, {"time", "2026-11-20T11:00:00Z"}}};
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");

  op.Settle();
  op.clock.Advance(std::chrono::seconds(2));
  op.Settle();

  EXPECT_TRUE(api.objects.contains(std::string(kPodsPath) + "/digits-worker-1"));
  EXPECT_EQ(StatusOf(api).failures.at(0).time, "2026-11-20T10:00:00Z");
}

TEST(Reconciler, WhatAPodsEventsSayOfItsStartIsInTheConditionAndAskedSeldom) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  json& pod = api.objects[std::string(kPodsPath) + "/digits-worker-0"];
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = {{"phase", "Pending"}};
  std::vector<std::string> questions;
  api.http.on_stream = [&](const http::Request& request) {
    questions.push_back(request.path);
    const json event = {{"regarding", {{"uid", pod["metadata"]["uid"]}}},
                        {"type", "Warning"},
                        {"reason", "FailedMount"},
                        {"note", "secret \"keys\" not found"},
                        {"eventTime", "2026-11-20T10:00:01Z"}};
    return http::FakeStream{
        .chunks = {"", json{{"metadata", {{"resourceVersion", "7"}}}, {"items", {event}}}.dump()}};
  };

  op.Settle();
  EXPECT_TRUE(questions.empty()) << "it has only just begun";
  op.clock.Advance(std::chrono::seconds(5));
  op.Settle();
  op.Settle();

  ASSERT_EQ(questions.size(), 1U);
  EXPECT_NE(questions[0].find("/apis/events.k8s.io/v1/namespaces/team-a/events?"),
            std::string::npos);
  EXPECT_NE(questions[0].find("regarding.uid%3D" + pod["metadata"]["uid"].get<std::string>()),
            std::string::npos)
      << questions[0];
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonPodNotStarting);
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).message,
            "digits-worker-0 on node n1 does not start: FailedMount: secret \"keys\" not found; "
            "create the Secret in namespace team-a, and the job continues; or correct its name in "
            "the job, delete the job and apply it again");
  api.http.on_stream = [](const http::Request&) {
    return http::FakeStream{.status = 403, .body = "{}"};
  };
  op.clock.Advance(std::chrono::seconds(60));
  op.Settle();
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonPodNotStarting)
      << "a right that was taken away costs the words, and nothing else";
}

}  // namespace
}  // namespace ringmaster::job
