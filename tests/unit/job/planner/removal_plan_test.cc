#include "operator/job/planner/removal_plan.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// A deleted job named digits whose checkpoints have not been removed yet.
struct DeletedJob {
  DeletedJob() {
    job.deleting = job.held = true;
    memory.since = kSeenDeleted;
  }
  // Adds the clean-up Pod, as if this process had created it.
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
  EXPECT_THAT(plan.waiting_for, HasSubstr("its Pods have not terminated yet"));
  EXPECT_EQ(plan.requeue_after, std::chrono::milliseconds(500));

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

TEST(RemovalPlan, AFailureLeavesTheFolderAndReportsWhichAndWhy) {
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

// Anyone who may create Pods in the namespace can create one of this name that succeeds.
TEST(RemovalPlan, OnlyThePodThatThisProcessMadeIsBelieved) {
  DeletedJob scene;
  scene.Remover(PodBuilder::Worker(0).Ended(0, "Completed", "removed all"));
  scene.memory.pod_uid = "another";

  const RemovalPlan plan = scene.Plan();

  EXPECT_FALSE(plan.release);
  EXPECT_FALSE(plan.create_pod) << "not before the name is free";
  ASSERT_THAT(plan.deletes, SizeIs(1));
  EXPECT_EQ(plan.deletes[0].uid, "uid-remover");

  scene.Remover(PodBuilder::Worker(0).Deleting());
  scene.memory.pod_uid = "another";
  EXPECT_THAT(scene.Plan().deletes, IsEmpty()) << "it goes already";
}

TEST(RemovalPlan, ReportsWhatItWaitsFor) {
  const std::pair<PodBuilder, const char*> table[] = {
      {PodBuilder::Worker(0), "it is running"},
      {PodBuilder::Worker(0).Phase(PodPhase::kPending), "it has not started yet"},
      {PodBuilder::Worker(0).Waiting("ContainerCreating", ""), "it has not started yet"},
      {PodBuilder::Worker(0).Waiting("ErrImagePull", "none"), "ErrImagePull: none"},
      {PodBuilder::Worker(0).Unschedulable("no room"), "it cannot be scheduled: no room"},
  };
  for (const auto& [pod, said] : table) {
    DeletedJob scene;
    scene.Remover(pod);

    EXPECT_TRUE(scene.Plan().waiting_for.ends_with(std::string(" removes them: ") + said))
        << scene.Plan().waiting_for;
  }
}

TEST(RemovalPlan, ReportsWhyThePodFailedFromTheBestSource) {
  struct Row {
    PodBuilder pod;
    const char* message;  // termination message of the Pod
    std::string said;
  };
  const PodBuilder evicted = PodBuilder::Worker(0).Phase(PodPhase::kFailed);
  const Row table[] = {
      {PodBuilder::Worker(0).Ended(1, "Error", "no such folder"), "x", "(Error): no such folder"},
      {PodBuilder::Worker(0).Ended(3, "Error"), "", "(Error): exit code 3"},
      {evicted, "memory is low", "failed: memory is low"},
      {evicted, "", "failed: without a message"},
      {PodBuilder::Worker(0).Ended(1, "Error", std::string(600, 'x')), "",
       "(Error): " + std::string(512, 'x')},
  };
  for (const Row& row : table) {
    DeletedJob scene;
    scene.Remover(row.pod);
    PodView pod = *scene.remover;
    pod.message = row.message;
    scene.remover = std::make_shared<const PodView>(pod);

    const RemovalPlan plan = scene.Plan();

    ASSERT_TRUE(plan.event.has_value());
    EXPECT_THAT(plan.event->note, HasSubstr(row.said + ". Remove the folder by hand"));
  }
}

TEST(RemovalPlan, APodThatWasRefusedIsTriedAgainInItsTime) {
  DeletedJob scene;
  scene.memory.refusal = Refusal{.cause = RefusalCause::kQuotaExceeded,
                                 .message = "exceeded quota",
                                 .retry_at = kSeenDeleted + std::chrono::seconds(5)};
  scene.now = kSeenDeleted + std::chrono::milliseconds(4999);
  EXPECT_FALSE(scene.Plan().create_pod);

  scene.now += std::chrono::milliseconds(1);
  EXPECT_TRUE(scene.Plan().create_pod);
}

TEST(RemovalPlan, APodThatGoesAlreadyIsNotDeletedAgain) {
  DeletedJob scene;
  scene.Remover(PodBuilder::Worker(0).Ended(0, "Completed", "removed all").Deleting());

  EXPECT_TRUE(scene.Plan().release);
  EXPECT_THAT(scene.Plan().deletes, IsEmpty());
}

TEST(RemovalPlan, NothingKeepsTheJobLongerThanTheLimit) {
  std::vector<DeletedJob> scenes(5);
  scenes[0].pods = {PodBuilder::Worker(0).OnNode("cut-off").Deleting().Build()};
  scenes[1].Remover(PodBuilder::Worker(0).Waiting("ImagePullBackOff", "no such image"));
  scenes[2].Remover(PodBuilder::Worker(0).Unschedulable("claim \"c\" not found"));
  scenes[3].Remover(PodBuilder::Worker(0));
  scenes[3].memory.pod_uid = "another";
  scenes[4].memory.refusal = Refusal{.cause = RefusalCause::kQuotaExceeded,
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
      Refusal{.cause = RefusalCause::kForbidden, .message = "namespace is being terminated"};
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
