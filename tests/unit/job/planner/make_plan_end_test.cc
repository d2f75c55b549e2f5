#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/reasons.h"
#include "operator/api/conditions.h"
#include "operator/job/planner/make_plan.h"
#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using api::ConditionStatus;
using ringmaster::testing::DeletedNames;
using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;

TEST(Plan, VerdictOfSuccessEndsTheJobAndKeepsThePodsThatEnded) {
  const api::TrainingJob job = RunningJob();
  const auto observed = SceneBuilder(job)
                            .With(PodBuilder::Launcher(1).EndedWith(
                                {.succeeded = true, .epoch = {1, 2}, .world_size = 3}))
                            .With(PodBuilder::Worker(0).Ended(0, "Completed"))
                            .With(PodBuilder::Worker(1))
                            .Build();
  Scene scene{.job = job, .observed = observed};

  const Plan first = scene.Make();
  scene.memory.ended_since = scene.now;
  scene.now += std::chrono::seconds(4);
  scene.job.status = first.status;
  const Plan later = scene.Make();

  EXPECT_TRUE(api::IsTrue(first.status.conditions, api::kSucceeded));
  EXPECT_EQ(first.status.state, api::kStateSucceeded);
  EXPECT_EQ(first.status.world_size, 3);
  EXPECT_TRUE(first.deletes.empty());
  EXPECT_TRUE(first.requeue_after.has_value());
  EXPECT_EQ(DeletedNames(later), std::vector<std::string>{"digits-worker-1"});
  EXPECT_FALSE(later.CreatesPods());
}

TEST(Plan, VerdictOfFailureNamesWorkerNodeAndRank) {
  const api::TrainingJob job = RunningJob();
  control::Verdict verdict{
      .succeeded = false, .reason = control::kReasonRankFailed, .message = "rank 1 exited"};
  verdict.first_failure = control::RankExit{.rank = 1,
                                            .pod_uid = "u",
                                            .pod = "digits-worker-1",
                                            .node = "node-2",
                                            .exit_code = 3,
                                            .last_lines = {"boom"}};

  const Plan plan =
      Scene{
          .job = job,
          .observed =
              SceneBuilder(job).With(PodBuilder::Launcher(1).EndedWith(verdict)).Workers(3).Build()}
          .Make();

  const api::Condition* failed = api::FindCondition(plan.status.conditions, api::kFailed);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, control::kReasonRankFailed);
  EXPECT_EQ(failed->message,
            "rank 1 exited. Correct the program or its input, then delete the job and apply it "
            "again");
  ASSERT_EQ(plan.status.failures.size(), 1u);
  EXPECT_EQ(plan.status.failures[0].node, "node-2");
  EXPECT_EQ(plan.status.failures[0].exit_code, 3);
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_TRUE(plan.events[0].warning);
}

TEST(Plan, AProgramThatWasKilledOrCouldNotStartIsNoUserError) {
  struct Case {
    int signal;
    int exit_code;
    bool of_the_program;
  };
  for (const Case& c : {Case{SIGSEGV, -1, true}, Case{SIGKILL, -1, false}, Case{SIGTERM, -1, false},
                        Case{0, control::kExitNotStarted, false}}) {
    const api::TrainingJob job = RunningJob();
    control::Verdict verdict{
        .succeeded = false, .reason = control::kReasonCrashLoop, .message = "rank 1 ended"};
    verdict.first_failure =
        control::RankExit{.rank = 1, .exit_code = c.exit_code, .signal = c.signal};

    const Plan plan = Scene{.job = job,
                            .observed = SceneBuilder(job)
                                            .With(PodBuilder::Launcher(1).EndedWith(verdict))
                                            .Workers(3)
                                            .Build()}
                          .Make();

    const api::Condition* failed = api::FindCondition(plan.status.conditions, api::kFailed);
    ASSERT_NE(failed, nullptr);
    EXPECT_EQ(failed->message != "rank 1 ended", c.of_the_program) << failed->message;
  }
}

TEST(Plan, TheNewestCheckpointOfAJobThatEndedBeforeItWasAskedIsInItsStatus) {
  const api::TrainingJob job = RunningJob();
  const control::CheckpointReport newest{
      .epoch = {1, 1}, .step = 100, .age_millis = 3000, .bytes = 4096};
  const auto observed =
      SceneBuilder(job)
          .With(PodBuilder::Launcher(1).Ended(
              0, "Completed",
              control::EncodeVerdict({.succeeded = true, .world_size = 3, .checkpoint = newest}),
              "2026-11-20T09:00:10Z"))
          .Build();
  Scene scene{.job = job, .observed = observed};
  ASSERT_FALSE(job.status.checkpoint.has_value());

  const auto checkpoint = scene.Make().status.checkpoint;

  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->step, 100);
  EXPECT_EQ(checkpoint->bytes, 4096);
  EXPECT_EQ(checkpoint->time, "2026-11-20T09:00:07Z");
}

TEST(Plan, ASuccessWithoutAStepOfItsOwnHasAReasonOfItsOwnAndSaysWithWhatItBegan) {
  const api::TrainingJob job = RunningJob();
  const auto observed =
      SceneBuilder(job)
          .With(PodBuilder::Launcher(1).EndedWith(
              {.succeeded = true,
               .reason = control::kReasonAlreadyComplete,
               .message = "this job trained no step",
               .epoch = {1, 1},
               .world_size = 3,
               .beginning =
                   control::Beginning{.step = 500, .message = "it started from step 500"}}))
          .Build();
  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  const api::Condition* succeeded = api::FindCondition(plan.status.conditions, api::kSucceeded);
  ASSERT_NE(succeeded, nullptr);
  EXPECT_EQ(succeeded->reason, "AlreadyComplete");
  EXPECT_TRUE(api::IsTrue(plan.status.conditions, api::kRestored));
  EXPECT_TRUE(std::ranges::any_of(plan.events, [](const auto& event) {
    return event.reason == api::kReasonFromCheckpoint;
  })) << "nobody asked the launcher while it lived";
}

TEST(Plan, AJobThatEndedIsNotExpectedToBeComplete) {
  const api::TrainingJob job = RunningJob();
  const auto observed = SceneBuilder(job)
                            .With(PodBuilder::Launcher(1).EndedWith(
                                {.succeeded = false,
                                 .reason = control::kReasonRankFailed,
                                 .progress = control::Progress{.step = 10, .total_steps = 100}}))
                            .Build();

  const Plan plan = Scene{.job = job, .observed = observed}.Make();

  ASSERT_TRUE(plan.status.progress.has_value());
  EXPECT_EQ(plan.status.progress->percent, 10);
  EXPECT_EQ(plan.status.progress->estimated_completion_time, "");
}

// If a job has trained, its spec was valid: a webhook that rejects its Pods may allow them later.
TEST(Plan, ASpecThatIsRefusedForGoodEndsAJobThatHasNeverTrained) {
  for (const bool trained : {false, true}) {
    for (const bool user_error : {false, true}) {
      api::TrainingJob job = JobBuilder().Term(1).Build();
      job.status.has_trained = trained;
      Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
      scene.memory.refusal =
          Refusal{.cause = user_error ? RefusalCause::kInvalidPod : RefusalCause::kInvalidSpec,
                  .message = "spec.image is too long"};

      const Plan plan = scene.Make();

      const api::Condition* failed = api::FindCondition(plan.status.conditions, api::kFailed);
      ASSERT_EQ(failed != nullptr, !trained && user_error);
      if (failed != nullptr) {
        EXPECT_EQ(failed->message,
                  "spec.image is too long; correct the spec, then delete the job and apply it "
                  "again");
      }
    }
  }
}

TEST(Plan, EndedJobNeverMakesPodsAgain) {
  const api::TrainingJob job = JobBuilder().Term(1).Condition(api::kFailed, "RankFailed").Build();

  const Plan plan = Scene{.job = job, .observed = SceneBuilder(job).NoServices().Build()}.Make();

  EXPECT_FALSE(plan.CreatesPods());
  EXPECT_FALSE(plan.create_services);
}

// The launcher's Service names the installation. Without it, the plan must confirm the claim.
TEST(Plan, AnEndWithoutALaunchersServiceIsConfirmed) {
  for (const bool service : {false, true}) {
    for (const std::string installation : {"", "us/lease"}) {
      api::TrainingJob job = JobBuilder().Build();
      job.status.installation = installation;
      SceneBuilder builder(job);
      if (!service) builder.NoServices();
      Scene scene{.job = job, .observed = builder.Build()};
      scene.memory.refusal = Refusal{.cause = RefusalCause::kInvalidPod};
      PlanInput input = scene.Input();
      input.installation = installation;

      EXPECT_EQ(MakePlan(input).confirm_claim, !service && !installation.empty())
          << service << installation;
    }
  }
}

TEST(Plan, CleanUpEndsPodsOfWhichOnlyTheSidecarsRun) {
  const api::TrainingJob job = JobBuilder().Term(1).Condition(api::kFailed, "RankFailed").Build();
  const auto half = [](PodBuilder pod) { return pod.Phase(PodPhase::kRunning); };
  Scene scene{.job = job,
              .observed = SceneBuilder(job)
                              .With(half(PodBuilder::Launcher(1).Ended(1, "Error")))
                              .With(half(PodBuilder::Worker(0).Ended(0, "Completed")))
                              .With(half(PodBuilder::Worker(1).Ended(1, "Error")))
                              .With(PodBuilder::Worker(2).Ended(0, "Completed"))
                              .Build()};
  scene.memory.ended_since = scene.now - std::chrono::seconds(4);

  EXPECT_EQ(DeletedNames(scene.Make()),
            (std::vector<std::string>{"digits-worker-0", "digits-worker-1", "digits-launcher-1"}));
}

TEST(Plan, ThePodsOfAnEndedJobOfThousandsAreDeletedInParts) {
  api::TrainingJob job = JobBuilder().Replicas(1500).Term(1).Build();
  Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(1500).Build()};
  scene.job.status.conditions.push_back(
      {.type = api::kFailed, .status = ConditionStatus::kTrue, .reason = "RankFailed"});
  scene.memory.ended_since = scene.now - std::chrono::minutes(1);

  const Plan plan = scene.Make();

  EXPECT_EQ(plan.deletes.size(), 1000U);
  EXPECT_EQ(plan.requeue_after, std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace ringmaster::job
