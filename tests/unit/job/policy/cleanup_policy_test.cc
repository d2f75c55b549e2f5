#include "operator/job/policy/cleanup_policy.h"

#include <gmock/gmock.h>

#include "operator/api/conditions.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::DeletedNames;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Returns a job that ended at 10:00:00, the current time of scenes.
api::TrainingJob EndedJob(const api::RunPolicy& policy, const char* how = api::kSucceeded) {
  return JobBuilder().Replicas(4).Term(1).Condition(how, "Completed").RunPolicy(policy).Build();
}

// Worker 0 and the launcher have ended, worker 1 trains, only a sidecar runs in worker 2, and all
// containers of worker 3 have terminated, which its phase does not say yet.
Scene EndedScene(const api::TrainingJob& job) {
  Scene scene{
      .job = job,
      .observed = SceneBuilder(job)
                      .With(PodBuilder::Launcher(1).Ended(0, "Completed"))
                      .With(PodBuilder::Worker(0).Ended(0, "Completed"))
                      .With(PodBuilder::Worker(1))
                      .With(PodBuilder::Worker(2).Ended(0, "Completed").Phase(PodPhase::kRunning))
                      .With(PodBuilder::Worker(3)
                                .Ended(0, "Completed")
                                .ContainersEnded()
                                .Phase(PodPhase::kRunning))
                      .Build()};
  scene.memory.ended_since = scene.now - std::chrono::minutes(1);
  return scene;
}

TEST(CleanupPolicy, DeletesWhatThePolicyNames) {
  struct Row {
    api::CleanPodPolicy policy;
    std::vector<std::string> deleted;
  };
  for (const Row& row : std::vector<Row>{
           {api::CleanPodPolicy::kNone, {"digits-worker-1"}},
           {api::CleanPodPolicy::kStillRunning, {"digits-worker-1", "digits-worker-2"}},
           {api::CleanPodPolicy::kAll,
            {"digits-worker-1", "digits-worker-0", "digits-worker-2", "digits-worker-3",
             "digits-launcher-1"}}}) {
    api::RunPolicy policy;
    policy.clean_pods = row.policy;

    const Plan plan = EndedScene(EndedJob(policy)).Make();

    EXPECT_EQ(DeletedNames(plan), row.deleted) << static_cast<int>(row.policy);
    EXPECT_FALSE(plan.delete_job);
  }
}

TEST(CleanupPolicy, WaitsForPodsToEndByThemselves) {
  Scene scene = EndedScene(EndedJob({}));
  scene.memory.ended_since = scene.now - std::chrono::milliseconds(2999);

  const Plan early = scene.Make();
  scene.now += std::chrono::milliseconds(1);
  const Plan due = scene.Make();

  EXPECT_THAT(DeletedNames(early), IsEmpty());
  EXPECT_EQ(early.requeue_after, std::chrono::milliseconds(1));
  EXPECT_THAT(DeletedNames(due), Not(IsEmpty()));
}

TEST(CleanupPolicy, LeavesAloneWhatIsBeingDeleted) {
  const api::TrainingJob job = EndedJob({});
  Scene scene{.job = job,
              .observed = SceneBuilder(job).With(PodBuilder::Worker(0).Deleting()).Build()};

  const Plan plan = scene.Make();

  EXPECT_THAT(DeletedNames(plan), IsEmpty());
  EXPECT_FALSE(plan.requeue_after.has_value());
}

TEST(CleanupPolicy, DeletesTheJobWhenItsTimeToLiveIsOver) {
  struct Row {
    const char* name;
    const char* how;
    std::optional<std::chrono::seconds> after_success;
    std::optional<std::chrono::seconds> after_failure;
    int age;  // seconds since the job ended
    bool deleted;
    std::optional<std::chrono::milliseconds> again;
  };
  const std::chrono::seconds hour(3600);
  for (const Row& row : std::vector<Row>{
           {"no time is set", api::kSucceeded, {}, {}, 100'000, false, {}},
           {"success, too early", api::kSucceeded, hour, {}, 3599, false, std::chrono::seconds(1)},
           {"success, over", api::kSucceeded, hour, {}, 3600, true, {}},
           {"success, at once", api::kSucceeded, std::chrono::seconds(0), {}, 0, true, {}},
           {"success, only failures go", api::kSucceeded, {}, hour, 7200, false, {}},
           {"failure, only successes go", api::kFailed, hour, {}, 7200, false, {}},
           {"failure, over", api::kFailed, {}, hour, 3600, true, {}}}) {
    api::RunPolicy policy;
    policy.ttl_after_success = row.after_success;
    policy.ttl_after_failure = row.after_failure;
    const api::TrainingJob job = EndedJob(policy, row.how);
    Scene scene{.job = job, .observed = SceneBuilder(job).Build()};
    scene.wall_now += std::chrono::seconds(row.age);

    const Plan plan = scene.Make();

    EXPECT_EQ(plan.delete_job, row.deleted) << row.name;
    EXPECT_EQ(plan.requeue_after, row.again) << row.name;
  }
}

TEST(CleanupPolicy, AJobIsNotDeletedBeforeItsEndIsWrittenDown) {
  api::RunPolicy policy;
  policy.ttl_after_success = std::chrono::seconds(0);
  const api::TrainingJob job = JobBuilder().Term(1).RunPolicy(policy).Build();
  control::Verdict verdict;
  verdict.succeeded = true;
  Scene scene{
      .job = job,
      .observed = SceneBuilder(job).With(PodBuilder::Launcher(1).EndedWith(verdict)).Build()};

  const Plan plan = scene.Make();

  EXPECT_TRUE(api::IsTerminal(plan.status));
  EXPECT_EQ(plan.status.completion_time, "2026-11-20T10:00:00Z");
  EXPECT_FALSE(plan.delete_job);
}

}  // namespace
}  // namespace ringmaster::job
