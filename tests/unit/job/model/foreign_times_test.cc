#include "operator/job/model/foreign_times.h"

#include <gtest/gtest.h>

#include "operator/job/policy/replacement_policy.h"
#include "operator/job/policy/verdict_policy.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;

constexpr char kTheirNow[] = "2026-11-20T10:00:00Z";
constexpr char kInAnHour[] = "2026-11-20T11:00:00Z";
const Clock::WallTime kTheirWallNow = *ParseTime(kTheirNow);

std::shared_ptr<const api::TrainingJob> JobOf(const api::TrainingJobStatus& status) {
  return std::make_shared<const api::TrainingJob>(JobBuilder().Status(status).Build());
}

TEST(ForeignTimes, APodThatEndedOnANodeWhoseClockIsAheadEndedNow) {
  const PodPtr pod = PodBuilder::Worker(0).Ended(1, "Error", "", kInAnHour).Build();

  EXPECT_EQ(FailureOf(*pod, kTheirNow).time, kTheirNow);
}

TEST(ForeignTimes, APodThatEndedBeforeKeepsItsTime) {
  const PodPtr pod = PodBuilder::Worker(0).Ended(1, "Error", "", "2026-11-20T09:59:00Z").Build();

  EXPECT_EQ(FailureOf(*pod, kTheirNow).time, "2026-11-20T09:59:00Z");
}

TEST(ForeignTimes, WhatIsNoTimeIsNow) {
  for (const char* text : {"", "yesterday", "9999"})
    EXPECT_EQ(NotAfter(text, kTheirNow), kTheirNow);
}

TEST(ForeignTimes, AStatusOfALeaderWhoseClockWasAheadIsCorrectedWhole) {
  api::TrainingJobStatus status;
  status.start_time = status.completion_time = kInAnHour;
  status.conditions = {{.type = "Failed", .last_transition_time = kInAnHour}};
  status.failures = {{.pod_uid = "a", .time = kInAnHour},
                     {.pod_uid = "b", .time = "2026-11-20T09:00:00Z"}};
  status.stragglers = {{.pod_uid = "a", .since = kInAnHour}};
  status.checkpoint = {.step = 7, .time = kInAnHour};
  status.progress = {.step = 7, .estimated_completion_time = kInAnHour};

  const api::TrainingJobStatus past = WithoutFutureTimes(JobOf(status), kTheirWallNow)->status;

  EXPECT_EQ(past.start_time, kTheirNow);
  EXPECT_EQ(past.completion_time, kTheirNow);
  EXPECT_EQ(past.conditions[0].last_transition_time, kTheirNow);
  EXPECT_EQ(past.failures[0].time, kTheirNow);
  EXPECT_EQ(past.failures[1].time, "2026-11-20T09:00:00Z");
  EXPECT_EQ(past.stragglers[0].since, kTheirNow);
  EXPECT_EQ(past.checkpoint->time, kTheirNow);
  EXPECT_EQ(past.progress->estimated_completion_time, kInAnHour);
}

TEST(ForeignTimes, AStatusOfThePastStaysTheSameObject) {
  api::TrainingJobStatus status;
  status.start_time = kTheirNow;
  const auto job = JobOf(status);

  EXPECT_EQ(WithoutFutureTimes(job, kTheirWallNow), job);
}

}  // namespace
}  // namespace ringmaster::job
