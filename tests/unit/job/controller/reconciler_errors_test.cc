#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "tests/unit/job/controller/reconciler_scene.h"

namespace ringmaster::job {
namespace {

TEST(Reconciler, AQuotaRefusalIsReportedAndRetriedLater) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {403,
                                  "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1"};
  Operator op(api);

  op.Settle();
  const auto refused = StatusOf(api);
  api.refuse_create.clear();
  op.clock.Advance(std::chrono::seconds(61));
  op.Settle();

  const api::Condition* ready = api::FindCondition(refused.conditions, api::kWorkersReady);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->reason, api::kReasonQuotaExceeded);
  EXPECT_EQ(api.Count(kPodsPath), 4u);
  EXPECT_EQ(StatusOf(api).launcher_term, 1);
  EXPECT_NE(api::FindCondition(StatusOf(api).conditions, api::kWorkersReady)->reason,
            api::kReasonQuotaExceeded);
}

TEST(Reconciler, ARefusalIsForgottenWhenWhatWasRefusedIsNotNeededAnyMore) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  api.refuse_create[kPodsPath] = {403, "pods \"x\" is forbidden: exceeded quota: q"};
  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 4;
  op.Settle();
  ASSERT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonQuotaExceeded);

  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 3;
  op.clock.Advance(std::chrono::seconds(61));
  op.Settle();

  EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonQuotaExceeded);
}

TEST(Reconciler, PodsThatCannotBeValidFailTheJob) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {422, "Pod is invalid: spec.containers[0].resources: bad"};
  Operator op(api);

  op.Settle();

  const auto status = StatusOf(api);
  const api::Condition* failed = api::FindCondition(status.conditions, api::kFailed);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, api::kReasonInvalidSpec);
  EXPECT_NE(failed->message.find("spec.containers[0].resources"), std::string::npos);
}

void ExpectPodsOnceTheyAreAdmitted(FakeApi& api, Operator& op) {
  api.refuse_create.clear();
  op.clock.Advance(std::chrono::seconds(61));
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4u);
}

TEST(Reconciler, WhatIsRefusedOfAJobThatHasTrainedDoesNotEndIt) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  api.objects[kJobPath]["status"]["internal"]["hasTrained"] = true;
  api.objects.erase(std::string(kPodsPath) + "/digits-worker-1");
  api.refuse_create[kPodsPath] = {422, "Pod is invalid: spec.containers[0].resources: bad"};
  op.Settle();
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonInvalidSpec);

  ExpectPodsOnceTheyAreAdmitted(api, op);
}

// Kyverno and ValidatingAdmissionPolicies answer with the HTTP status of an invalid object.
TEST(Reconciler, AJobWhosePodsAWebhookDeniesWaitsUntilTheyAreAdmitted) {
  FakeApi api;
  Operator op(api);
  api.refuse_create[kPodsPath] = {400, "admission webhook \"w\" denied the request: no signature"};
  op.Settle();
  EXPECT_EQ(ConditionOf(api, api::kFailed).reason, "");
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonForbidden);

  ExpectPodsOnceTheyAreAdmitted(api, op);
}

TEST(Reconciler, AJobWhosePodsNeedABrokenWebhookSaysSoAndTriesAgain) {
  FakeApi api;
  Operator op(api);
  api.refuse_create[kPodsPath] = {
      500, "Internal error occurred: failed calling webhook \"w\": connection refused"};
  op.Settle();
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonApiError);
  EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("failed calling webhook \"w\""),
            std::string::npos);

  ExpectPodsOnceTheyAreAdmitted(api, op);
  EXPECT_EQ(StatusOf(api).launcher_term, 1);
}

// controller-runtime answers with 500 if a webhook's handler fails.
TEST(Reconciler, AJobWhosePodsAWebhookDeniesWithAServerErrorSaysSo) {
  FakeApi api;
  Operator op(api);
  api.refuse_create[kPodsPath] = {500, "admission webhook \"w\" denied the request: no cache"};
  op.Settle();
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonForbidden);

  ExpectPodsOnceTheyAreAdmitted(api, op);
  EXPECT_EQ(StatusOf(api).launcher_term, 1);
}

TEST(Reconciler, AJobWhoseCreatesFailForAMinuteSaysSoAndTriesAgain) {
  for (const char* refused : {kPodsPath, kServicesPath, kSecretsPath, kPoliciesPath}) {
    for (const int status : {409, 429, 504}) {
      const std::string what = std::string(refused) + " " + std::to_string(status);
      FakeApi api;
      Operator op(api, "", {}, kIsolated);
      api.refuse_create[refused] = {status, "try again later"};
      op.Settle();
      EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonApiError) << what;

      op.clock.Advance(std::chrono::seconds(61));
      op.Settle();
      EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonApiError) << what;
      EXPECT_NE(ConditionOf(api, api::kWorkersReady).message.find("try again later"),
                std::string::npos)
          << what;

      ExpectPodsOnceTheyAreAdmitted(api, op);
      EXPECT_NE(ConditionOf(api, api::kWorkersReady).reason, api::kReasonApiError) << what;
    }
  }
}

TEST(Reconciler, ARefusedDeleteIsReportedAtOnceAndThenRetriedWithABackOff) {
  FakeApi api;
  Operator op(api);
  op.Settle();
  const std::string worker = std::string(kPodsPath) + "/digits-worker-1";
  api.objects[worker]["status"] = {{"phase", "Failed"}, {"reason", "Evicted"}};
  api.refuse_delete = worker;
  std::vector<std::chrono::milliseconds> delays;
  for (int i = 0; i < 3; ++i) {
    op.Sync();
    const auto result = op.reconciler.Reconcile("team-a/digits");
    ASSERT_TRUE(result.ok()) << result.error().message;
    delays.push_back(*result->requeue_after);
  }

  EXPECT_EQ(delays[0], std::chrono::milliseconds(10));
  EXPECT_EQ(ConditionOf(api, api::kWorkersReady).reason, api::kReasonForbidden);
  EXPECT_GE(delays[1], std::chrono::seconds(1));
  EXPECT_GT(delays[2], delays[1]);
}

TEST(Reconciler, WithoutTheRightToDeleteJobsItWaitsWithABackOff) {
  FakeApi api;
  api.refuse_create[kPodsPath] = {422, "Pod is invalid"};
  api.objects[kJobPath]["spec"]["runPolicy"] = {{"ttlSecondsAfterFailure", 0}};
  api.refuse_delete = kJobPath;
  Operator op(api);
  op.Settle();
  op.Sync();

  const auto result = op.reconciler.Reconcile("team-a/digits");

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kForbidden);
}

TEST(Reconciler, AStoreThatStaysBehindIsNotAskedEverSoOften) {
  FakeApi api;
  Operator op(api);
  op.Sync();
  api.objects[kJobPath]["metadata"]["resourceVersion"] = "99";  // the watch misses this change
  std::chrono::milliseconds delay{0};
  for (int i = 0; i < 12; ++i) {
    const auto result = op.reconciler.Reconcile("team-a/digits");
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_GE(*result->requeue_after, delay);
    delay = *result->requeue_after;
  }

  EXPECT_GT(delay, std::chrono::seconds(4));
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4u);
}

TEST(Reconciler, ASlowApiServerKeepsNoPassForLong) {
  FakeApi api;
  api.objects[kJobPath]["spec"]["worker"]["replicas"] = 40;
  Operator op(api);
  api.http.on_send = [&, serve = api.http.on_send](const http::Request& request) {
    if (request.path.rfind(kPodsPath, 0) == 0) op.clock.Advance(std::chrono::seconds(10));
    return serve(request);
  };
  op.Sync();
  const Clock::Time began = op.clock.Now();

  const auto first = op.reconciler.Reconcile("team-a/digits");

  EXPECT_LE(op.clock.Now() - began, std::chrono::seconds(90));
  EXPECT_GT(api.Count(kPodsPath), 1U);
  ASSERT_TRUE(first.ok());
  EXPECT_LE(first->requeue_after, std::chrono::milliseconds(100)) << "the rest is made soon";
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 41U);
}

TEST(Reconciler, ARequestThatThrowsIsAnErrorOfItsJobAndTriedAgain) {
  FakeApi api;
  Operator op(api);
  int thrown = 0;
  api.http.on_send = [&, serve = api.http.on_send](const http::Request& request) {
    if (request.path.rfind(kPodsPath, 0) == 0 &&
        request.body.find("digits-worker-1") != std::string::npos && thrown++ == 0) {
      throw std::runtime_error("a bug");
    }
    return serve(request);
  };
  op.Sync();

  const auto first = op.reconciler.Reconcile("team-a/digits");

  ASSERT_EQ(thrown, 1);
  ASSERT_FALSE(first.ok()) << "nothing else would bring the job back";
  EXPECT_EQ(first.error().kind, ErrorKind::kInternal);
  EXPECT_NE(first.error().message.find("team-a/digits"), std::string::npos);
  op.Settle();
  EXPECT_EQ(api.Count(kPodsPath), 4U);
}

}  // namespace
}  // namespace ringmaster::job
