#include "operator/job/policy/image_policy.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::EventReasons;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using ::testing::Contains;
using ::testing::Not;

constexpr char kNoSuchImage[] =
    "Back-off pulling image \"r/x:1\": ErrImagePull: rpc error: code = NotFound desc = failed to "
    "pull and unpack image \"r/x:1\": failed to resolve reference \"r/x:1\": r/x:1: not found";

// Returns a job with this Pod. The scene's current time is 10:00:00.
Scene WithPod(const PodBuilder& pod) {
  api::TrainingJob job = JobBuilder().Replicas(1).Term(1).Build();
  job.status.start_time = "2026-11-20T08:00:00Z";
  Scene scene{.job = job, .observed = SceneBuilder(job).With(pod).Build()};
  return scene;
}

bool Failed(const Plan& plan) { return api::IsTrue(plan.status.conditions, api::kFailed); }

TEST(ImagePolicy, AnImageThatCannotBeHadEndsTheJobTenMinutesAfterItsPodGotANode) {
  Scene scene = WithPod(PodBuilder::Worker(0)
                            .Waiting("ImagePullBackOff", kNoSuchImage)
                            .ScheduledAt("2026-11-20T09:50:01Z"));

  const Plan waits = scene.Make();
  EXPECT_FALSE(Failed(waits));
  EXPECT_LE(*waits.requeue_after, std::chrono::seconds(1));
  scene.wall_now += std::chrono::seconds(1);
  const Plan ends = scene.Make();

  ASSERT_TRUE(Failed(ends));
  const api::Condition* failed = api::FindCondition(ends.status.conditions, api::kFailed);
  EXPECT_EQ(failed->reason, api::kReasonStartTimeout);
  EXPECT_EQ(failed->message.find("digits-worker-0 on node node-1 cannot pull image \"r/x:1\": not "
                                 "found; it was retried for 10 minutes. Correct spec.image "),
            0U)
      << failed->message;
}

TEST(ImagePolicy, TheRetriesOfAPullAreOneEvent) {
  const auto waits = [](const char* reason) {
    return PodBuilder::Worker(0).Waiting(reason, kNoSuchImage).ScheduledAt("2026-11-20T09:59:00Z");
  };
  Scene scene = WithPod(waits("ErrImagePull"));
  const Plan first = scene.Make();
  EXPECT_THAT(EventReasons(first), Contains("ErrImagePull"));

  scene.job.status = first.status;
  scene.observed = SceneBuilder(scene.job).With(waits("ImagePullBackOff")).Build();
  const Plan second = scene.Make();

  EXPECT_EQ(api::FindCondition(second.status.conditions, api::kWorkersReady)->reason,
            "ImagePullBackOff");
  EXPECT_THAT(EventReasons(second), Not(Contains("ImagePullBackOff")));
}

TEST(ImagePolicy, WhatMayHealIsWaitedForAndSoIsANode) {
  struct Row {
    const char* name;
    PodBuilder pod;
    bool ends;
  };
  const auto waits = [](const char* reason, const char* message) {
    return PodBuilder::Worker(0).Waiting(reason, message).ScheduledAt("2026-11-20T08:00:00Z");
  };
  const Row table[] = {
      {"not found", waits("ErrImagePull", "r/x:1: not found"), true},
      {"no right to it", waits("ErrImagePull", "pull access denied"), true},
      {"no credentials", waits("ErrImagePull", "401 Unauthorized"), true},
      {"no such registry", waits("ErrImagePull", "dial tcp: lookup r: no such host"), true},
      {"never to be pulled",
       waits("ErrImageNeverPull", "Container image \"x\" is not present with pull policy of Never"),
       true},
      {"a registry that is down",
       waits("ErrImagePull", "dial tcp 10.0.0.1:443: connection refused"), false},
      {"a registry that is slow", waits("ErrImagePull", "i/o timeout"), false},
      {"a back-off without a cause", waits("ImagePullBackOff", "Back-off pulling image \"x\""),
       false},
      {"another trouble", waits("CreateContainerError", "not found"), false},
      {"a start", waits("ContainerCreating", ""), false},
      {"no node", PodBuilder::Worker(0).Unschedulable("not found"), false},
      {"a time of another clock that is ahead",
       PodBuilder::Worker(0)
           .Waiting("ErrImagePull", "not found")
           .ScheduledAt("2026-11-20T10:30:00Z"),
       false},
  };
  for (const Row& row : table) EXPECT_EQ(Failed(WithPod(row.pod).Make()), row.ends) << row.name;
}

TEST(ImagePolicy, TheJobsOwnTimeoutAndItsTrainingComeFirst) {
  const PodBuilder pod = PodBuilder::Worker(0)
                             .Waiting("ErrImagePull", "not found")
                             .ScheduledAt("2026-11-20T08:00:00Z");
  Scene patient = WithPod(pod);
  patient.job.spec.run_policy.start_timeout = std::chrono::hours(24);
  EXPECT_FALSE(Failed(patient.Make()));
  Scene trains = WithPod(pod);
  trains.job.status.has_trained = true;
  EXPECT_FALSE(Failed(trains.Make()));
}

TEST(ImagePolicy, ThePodThatHasWaitedLongestIsNamedTheLaunchersToo) {
  const auto waits = [](PodBuilder pod, const char* since) {
    return pod.Waiting("ErrImagePull", "not found").ScheduledAt(since);
  };
  Scene scene = WithPod(waits(PodBuilder::Worker(0), "2026-11-20T09:49:00Z"));
  const auto named = [&] {
    const Plan plan = scene.Make();
    return api::FindCondition(plan.status.conditions, api::kFailed)->message.substr(0, 17);
  };
  scene.observed.live.push_back(waits(PodBuilder::Worker(1), "2026-11-20T09:48:00Z").Build());
  scene.observed.live.push_back(waits(PodBuilder::Worker(2), "2026-11-20T09:48:00Z").Build());
  EXPECT_EQ(named(), "digits-worker-1 o");

  PodView launcher = *waits(PodBuilder::Launcher(1), "2026-11-20T09:47:00Z").Build();
  launcher.ip.clear();
  scene.observed.launcher = std::make_shared<const PodView>(launcher);
  EXPECT_EQ(named(), "digits-launcher-1");
}

}  // namespace
}  // namespace ringmaster::job
