#include "operator/job/model/job_memory.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::SceneBuilder;

constexpr Clock::Time kStart{std::chrono::hours(1)};

std::vector<std::string> Gone(const JobMemory& memory) {
  std::vector<std::string> uids;
  for (const GoneWorker& worker : memory.gone) uids.push_back(worker.pod_uid);
  return uids;
}

LauncherView Answer(control::Epoch epoch,
                    control::LauncherPhase phase = control::LauncherPhase::kRunning) {
  LauncherView view;
  view.status = RunningWorld(2);
  view.status->epoch = epoch;
  view.status->phase = phase;
  return view;
}

TEST(JobMemory, PodsThatVanishAreEvidenceUntilALaterEpochRuns) {
  const api::TrainingJob job = RunningJob(3);
  const Observed three = SceneBuilder(job).Launcher().Workers(3).Build();
  const Observed two = SceneBuilder(job).Launcher().Workers(2).Build();
  const std::vector<std::string> evidence{"uid-worker-2"};
  JobMemory memory;

  Remember(three, Answer({1, 4}), kStart, memory);
  EXPECT_TRUE(memory.gone.empty());
  Remember(two, Answer({1, 4}), kStart, memory);
  EXPECT_EQ(Gone(memory), evidence);
  Remember(two, Answer({1, 5}, control::LauncherPhase::kForming), kStart, memory);
  EXPECT_EQ(Gone(memory), evidence);
  LauncherView stale = Answer({1, 5});
  stale.status->workers.push_back(RunningWorld(3).workers[2]);  // worker 2 is reported as a member
  Remember(two, stale, kStart, memory);
  EXPECT_EQ(Gone(memory), evidence);
  Remember(two, Answer({1, 5}), kStart, memory);
  EXPECT_TRUE(memory.gone.empty());
}

TEST(JobMemory, AnUnannouncedLossIsNewsOnce) {
  const std::pair<PodBuilder, bool> table[] = {
      {PodBuilder::Worker(1), true},
      {PodBuilder::Worker(1).Deleting(), false},
      {PodBuilder::Worker(1).Leaving("ScalingDown"), false},
  };
  for (const auto& [pod, news] : table) {
    const api::TrainingJob job = RunningJob(1);
    const Observed without = SceneBuilder(job).Workers(1).Build();
    JobMemory memory;
    Remember(SceneBuilder(job).Workers(1).With(pod).Build(), std::nullopt, kStart, memory);

    Remember(without, std::nullopt, kStart, memory);
    ASSERT_EQ(memory.gone.size(), 1U);
    EXPECT_EQ(memory.gone[0].news, news);
    Remember(without, std::nullopt, kStart, memory);
    EXPECT_FALSE(memory.gone[0].news);
  }
}

TEST(JobMemory, OfThousandsThatVanishTheNewestAreEvidence) {
  const api::TrainingJob job = RunningJob(1);
  JobMemory memory;
  Remember(SceneBuilder(job).Workers(1).Build(), std::nullopt, kStart, memory);
  Remember(SceneBuilder(job).With(PodBuilder::Worker(1)).Build(), std::nullopt, kStart, memory);
  EXPECT_EQ(Gone(memory), std::vector<std::string>{"uid-worker-0"});
  SceneBuilder many(job);
  for (int index = 2; index < 1026; ++index) many.With(PodBuilder::Worker(index));
  Remember(many.Build(), std::nullopt, kStart, memory);
  EXPECT_EQ(memory.gone.size(), 2U);

  Remember(SceneBuilder(job).Build(), std::nullopt, kStart, memory);

  EXPECT_EQ(memory.gone.size(), 1024U);
  for (const GoneWorker& worker : memory.gone) EXPECT_TRUE(worker.news) << "the oldest has gone";
}

TEST(JobMemory, EvidenceFromBeforeTheFirstAnswerIsKept) {
  const api::TrainingJob job = RunningJob(3);
  JobMemory memory;
  Remember(SceneBuilder(job).Workers(3).Build(), std::nullopt, kStart, memory);
  const Observed two = SceneBuilder(job).Workers(2).Build();

  Remember(two, std::nullopt, kStart, memory);
  Remember(two, Answer({2, 7}), kStart, memory);

  EXPECT_EQ(Gone(memory), std::vector<std::string>{"uid-worker-2"});
}

TEST(JobMemory, APodThatIsSeenAgainIsNotGone) {
  const api::TrainingJob job = RunningJob(3);
  const Observed three = SceneBuilder(job).Workers(3).Build();
  JobMemory memory;
  Remember(three, std::nullopt, kStart, memory);
  Remember(SceneBuilder(job).Workers(2).Build(), std::nullopt, kStart, memory);

  Remember(three, std::nullopt, kStart, memory);

  EXPECT_TRUE(memory.gone.empty());
}

TEST(JobMemory, AMarkKeepsItsFirstTime) {
  const api::TrainingJob job = RunningJob(1);
  const Observed marked =
      SceneBuilder(job).Workers(1).With(PodBuilder::Worker(1).Leaving("x")).Build();
  JobMemory memory;

  Remember(marked, std::nullopt, kStart, memory);
  Remember(marked, std::nullopt, kStart + std::chrono::seconds(9), memory);

  ASSERT_EQ(memory.leaving_since.size(), 1u);
  EXPECT_EQ(memory.leaving_since.at("uid-worker-1"), kStart);
  Remember(SceneBuilder(job).Workers(1).Build(), std::nullopt, kStart, memory);
  EXPECT_TRUE(memory.leaving_since.empty());
}

TEST(JobMemory, ANodeIsRememberedWhileAPodNamesIt) {
  const api::TrainingJob job = RunningJob(1);
  JobMemory memory;

  Remember(SceneBuilder(job).Workers(1).Node("node-1").Build(), std::nullopt, kStart, memory);
  Remember(SceneBuilder(job).Workers(1).Build(), std::nullopt, kStart, memory);
  EXPECT_EQ(memory.nodes, std::set<std::string>{"node-1"});
  Remember(SceneBuilder(job).Build(), std::nullopt, kStart, memory);
  EXPECT_TRUE(memory.nodes.empty());

  Remember(SceneBuilder(job).Launcher().Node("node-1").Build(), std::nullopt, kStart, memory);
  Remember(SceneBuilder(job).Launcher().Build(), std::nullopt, kStart, memory);
  EXPECT_EQ(memory.nodes, std::set<std::string>{"node-1"}) << "the launcher's";
  Remember(SceneBuilder(job).Build(), std::nullopt, kStart, memory);
  EXPECT_TRUE(memory.nodes.empty());
}

TEST(JobMemory, CorrectPoliciesAreCheckedAgainAfterAWhile) {
  std::optional<IsolationCheck> latest;
  EXPECT_EQ(IsolationCheckDue(latest, kStart).count(), 0);
  latest = IsolationCheck{.at = kStart};
  EXPECT_EQ(IsolationCheckDue(latest, kStart).count(), 0) << "they were not as made";
  latest->isolated = true;
  const auto due = IsolationCheckDue(latest, kStart);
  EXPECT_GT(due.count(), 0);
  EXPECT_EQ(IsolationCheckDue(latest, kStart + due / 2), due - due / 2);
  EXPECT_EQ(IsolationCheckDue(latest, kStart + 2 * due).count(), 0);
}

}  // namespace
}  // namespace ringmaster::job
