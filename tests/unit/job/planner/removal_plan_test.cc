#include "operator/job/planner/removal_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;
using ringmaster::testing::kJobUid;
using ringmaster::testing::PodBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Clock::Time kSeenDeleted{std::chrono::hours(1)};

// A deleted job of the name digits that has nothing left but its checkpoints.
struct DeletedJob {
  DeletedJob() {
    job.deleting = job.held = true;
    memory.since = kSeenDeleted;
  }
  // The Pod that removes, as this process has made it.
  void Remover(PodBuilder pod) {
    auto view = std::make_shared<PodView>(*pod.Build());
    view->name = api::CleanUpPodName(job.name, job.uid);
    view->uid = memory.pod_uid = "uid-remover";
    view->role = Role::kOther;
    view->owner_uid.clear();
    remover = view;
  }
  RemovalPlan Plan() const {
    return PlanRemoval({.job = job,
                        .violations = violations,
                        .pods = pods,
                        .remover = remover,
                        .memory = memory,
                        .now = now});
  }

  api::TrainingJob job =
      JobBuilder()
          .Checkpoint({.volume_json = R"({"persistentVolumeClaim":{"claimName":"c"}})",
                       .delete_with_job = true})
          .Build();
  std::vector<Violation> violations;
  std::vector<PodPtr> pods;
  PodPtr remover;
  RemovalMemory memory;
  Clock::Time now = kSeenDeleted;
};

TEST(RemovalPlan, ItsPodsEndFirstAsTheyWriteThere) {
  DeletedJob scene;
  scene.pods = {PodBuilder::Launcher(1).Build(), PodBuilder::Worker(0).Deleting().Build(),
                PodBuilder::Worker(1).Ended(0, "Completed").Build()};

  const RemovalPlan plan = scene.Plan();

  ASSERT_THAT(plan.deletes, SizeIs(1));
  EXPECT_EQ(plan.deletes[0].name, "digits-launcher-1");
  EXPECT_FALSE(plan.create_pod);
  EXPECT_FALSE(plan.release);
  EXPECT_THAT(plan.waiting_for, HasSubstr("its Pods have not ended yet"));
  EXPECT_TRUE(plan.requeue_after.has_value());

  scene.pods.resize(0);
  scene.pods.push_back(PodBuilder::Worker(1).Ended(0, "Completed").Build());
  EXPECT_TRUE(scene.Plan().create_pod) << "a Pod that has ended writes nothing";
}

TEST(RemovalPlan, TheJobGoesWhenThePodHasRemovedTheFolder) {
  DeletedJob scene;
  scene.Remover(PodBuilder::Worker(0));
  EXPECT_FALSE(scene.Plan().release);
  EXPECT_FALSE(scene.Plan().create_pod);

  scene.Remover(PodBuilder::Worker(0).Ended(0, "Completed", "removed 3 files of 15 bytes"));
  const RemovalPlan plan = scene.Plan();

  EXPECT_TRUE(plan.release);
  ASSERT_TRUE(plan.event.has_value());
  EXPECT_FALSE(plan.event->warning);
  EXPECT_EQ(plan.event->note, std::string("Removed team-a/digits/") + kJobUid +
                                  " from the checkpoint volume: removed 3 files of 15 bytes");
  ASSERT_THAT(plan.deletes, SizeIs(1));
  EXPECT_EQ(plan.deletes[0].uid, "uid-remover");
}

TEST(RemovalPlan, AFailureLeavesTheFolderAndSaysWhichAndWhy) {
  DeletedJob scene;
  scene.Remover(PodBuilder::Worker(0).Ended(1, "Error", "a link is not\nfollowed"));

  const RemovalPlan plan = scene.Plan();

  EXPECT_TRUE(plan.release);
  ASSERT_TRUE(plan.event.has_value());
  EXPECT_TRUE(plan.event->warning);
  EXPECT_EQ(plan.event->reason, api::kEventCheckpointsLeft);
  EXPECT_THAT(plan.event->note, HasSubstr(std::string("Left team-a/digits/") + kJobUid));
  EXPECT_THAT(plan.event->note, HasSubstr("failed (Error): a link is not followed"));
}

// Whoever may make Pods in the namespace may make one of that name, and have it succeed.
TEST(RemovalPlan, OnlyThePodThatThisProcessMadeIsBelieved) {
  DeletedJob scene;
  scene.Remover(PodBuilder::Worker(0).Ended(0, "Completed", "removed all"));
  scene.memory.pod_uid = "another";

  const RemovalPlan plan = scene.Plan();

  EXPECT_FALSE(plan.release);
  EXPECT_FALSE(plan.create_pod) << "not before the name is free";
  ASSERT_THAT(plan.deletes, SizeIs(1));
  EXPECT_EQ(plan.deletes[0].uid, "uid-remover");
}

TEST(RemovalPlan, NothingKeepsTheJobLongerThanTheLimit) {
  std::vector<DeletedJob> scenes(5);
  scenes[0].pods = {PodBuilder::Worker(0).OnNode("cut-off").Deleting().Build()};
  scenes[1].Remover(PodBuilder::Worker(0).Waiting("ImagePullBackOff", "no such image"));
  scenes[2].Remover(PodBuilder::Worker(0).Unschedulable("claim \"c\" not found"));
  scenes[3].Remover(PodBuilder::Worker(0));
  scenes[3].memory.pod_uid = "another";
  scenes[4].memory.refusal = Refusal{.reason = "QuotaExceeded",
                                     .message = "exceeded quota",
                                     .retry_at = kSeenDeleted + kRemovalLimit * 2};
  const char* const why[] = {"digits-worker-0 on node cut-off", "ImagePullBackOff: no such image",
                             "claim \"c\" not found", "is being deleted", "exceeded quota"};
  const char* const reasons[] = {"EndingPods", "Removing", "Removing", "Removing", "QuotaExceeded"};
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    scenes[i].now = kSeenDeleted + kRemovalLimit - std::chrono::milliseconds(1);
    const RemovalPlan waiting = scenes[i].Plan();
    EXPECT_FALSE(waiting.release) << i;
    EXPECT_EQ(waiting.waiting_reason, reasons[i]) << i;
    EXPECT_THAT(waiting.waiting_for, HasSubstr(why[i]));
    EXPECT_EQ(waiting.requeue_after, std::chrono::milliseconds(1)) << i;

    scenes[i].now = kSeenDeleted + kRemovalLimit;
    const RemovalPlan plan = scenes[i].Plan();
    EXPECT_TRUE(plan.release) << i;
    EXPECT_FALSE(plan.create_pod) << i;
    ASSERT_TRUE(plan.event.has_value()) << i;
    EXPECT_TRUE(plan.event->warning) << i;
    EXPECT_THAT(plan.event->note, HasSubstr(why[i]));
  }
}

TEST(RemovalPlan, WhatCannotBeMadeAtAllIsNotWaitedFor) {
  DeletedJob refused;
  refused.memory.refusal =
      Refusal{.reason = "Forbidden", .message = "namespace is being terminated"};
  refused.memory.for_good = true;
  DeletedJob judged;
  judged.violations = {{.path = "spec.image", .message = "is not allowed", .by_policy = true}};
  for (const auto& [scene, why] :
       {std::pair(&refused, "is being terminated"), std::pair(&judged, "spec.image")}) {
    const RemovalPlan plan = scene->Plan();
    EXPECT_TRUE(plan.release);
    EXPECT_FALSE(plan.create_pod);
    ASSERT_TRUE(plan.event.has_value());
    EXPECT_THAT(plan.event->note, HasSubstr(why));
  }
}

TEST(RemovalPlan, AChangeToRetainLetsTheJobGoAtOnce) {
  DeletedJob scene;
  scene.job.spec.checkpoint->delete_with_job = false;
  scene.pods = {PodBuilder::Worker(0).Build()};
  scene.Remover(PodBuilder::Worker(0));

  const RemovalPlan plan = scene.Plan();

  EXPECT_TRUE(plan.release);
  EXPECT_FALSE(plan.event.has_value());
  ASSERT_THAT(plan.deletes, SizeIs(1)) << "the Pod that has no owner, and no other";
  EXPECT_EQ(plan.deletes[0].uid, "uid-remover");
}

}  // namespace
}  // namespace ringmaster::job
