#include "operator/job/controller/job_changes.h"

#include <gtest/gtest.h>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/policy/replacement_policy.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using api::ConditionStatus;
using api::TrainingJobStatus;
using std::chrono::seconds;
using testing::JobBuilder;

constexpr char kCreatedAt[] = "2026-11-20T10:00:00Z";

Clock::WallTime At(int seconds_after_creation) {
  return *ParseTime(kCreatedAt) + seconds(seconds_after_creation);
}

// Builds a status in the same steps as the operator.
class Story {
 public:
  Story() {
    job.created_at = kCreatedAt;
    job.status.start_time = kCreatedAt;
  }
  Story& State(const char* state) {
    job.status.state = state;
    return *this;
  }
  Story& Set(const char* type, bool value, int at, const char* reason = "R") {
    api::SetCondition(job.status.conditions,
                      {.type = type,
                       .status = value ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                       .reason = reason},
                      FormatTime(At(at)));
    return *this;
  }
  Story& Epoch(int64_t epoch) {
    job.status.epoch = epoch;
    return *this;
  }
  Story& Term(int64_t term) {
    job.status.launcher_term = term;
    return *this;
  }
  Story& HasTrained() {
    job.status.has_trained = true;
    return *this;
  }
  Story& Fail(api::Failure failure) {
    AddFailure(job.status.failures, std::move(failure));
    return *this;
  }
  Story& Recover(api::Recovery recovery) {
    job.status.last_recovery = std::move(recovery);
    return *this;
  }

  api::TrainingJob job = JobBuilder().Term(1).Build();
};

// Returns the change from `before` to `after`, `now` seconds after the job's creation.
JobChange ChangeBetween(const Story& before, const Story& after, int now = 100) {
  return ObserveChange(before.job, after.job.status, std::nullopt, At(now));
}

Story StartingStory() { return Story().State(api::kStateStarting).Set(api::kRunning, false, 3); }
Story TrainingStory() {
  return StartingStory()
      .State(api::kStateRunning)
      .Set(api::kRunning, true, 12)
      .Epoch(1)
      .HasTrained();
}

TEST(JobChanges, SubmitToRunningIsCountedOnceInAJobsLife) {
  struct Case {
    const char* what;
    Story before;
    Story after;
    std::optional<double> expected;
  };
  const Case cases[] = {
      {"its first world", StartingStory(), TrainingStory(), 12},
      {"its first status at all", Story().State(""), TrainingStory(), 12},
      {"it goes on training", TrainingStory(), TrainingStory().Epoch(2), std::nullopt},
      {"not running yet", StartingStory(), StartingStory().Term(2), std::nullopt},
      {"its ranks were loading when the status was written", StartingStory().Epoch(1),
       TrainingStory(), 12},
      {"its launcher was replaced before the first world", StartingStory().Term(2),
       TrainingStory().Term(2), 12},
      {"it runs again after a pause", TrainingStory().Set(api::kRunning, false, 50),
       TrainingStory().Set(api::kRunning, false, 50).Set(api::kRunning, true, 60), std::nullopt},
      {"it was created suspended, and resumed", StartingStory().Set(api::kSuspended, false, 5),
       TrainingStory().Set(api::kSuspended, false, 5), 12},
      {"it was suspended before it had trained",
       StartingStory().Term(2).Set(api::kSuspended, false, 5),
       TrainingStory().Term(2).Set(api::kSuspended, false, 5), 12},
      {"it was suspended after it had trained", StartingStory().Term(2).HasTrained(),
       TrainingStory().Term(2).HasTrained(), std::nullopt},
  };
  for (const Case& c : cases) {
    const JobChange change = ChangeBetween(c.before, c.after);

    ASSERT_EQ(change.submit_to_running.has_value(), c.expected.has_value()) << c.what;
    if (c.expected) {
      EXPECT_DOUBLE_EQ(change.submit_to_running->count(), *c.expected) << c.what;
    }
  }
}

TEST(JobChanges, ALeftPhaseLastedSinceTheStatusSaysItBegan) {
  struct Case {
    const char* what;
    Story before;
    Story after;
    const char* phase;  // null: no phase is counted
    double lasted;
  };
  const Story paused = TrainingStory().State(api::kStatePaused).Set(api::kRunning, false, 40);
  const Story suspended =
      TrainingStory().State(api::kStateSuspended).Set(api::kSuspended, true, 70);
  const Story lost = TrainingStory().State(api::kStatePending).Set(api::kRunning, false, 60);
  const Case cases[] = {
      {"the same phase", TrainingStory(), TrainingStory().Epoch(2), nullptr, 0},
      {"the first status", Story().State(""), Story().State(api::kStatePending), nullptr, 0},
      {"pending since its start", Story().State(api::kStatePending), StartingStory(), "Pending",
       100},
      {"pending since its launcher was lost", lost, TrainingStory(), "Pending", 40},
      {"running since its condition turned", TrainingStory(), paused, "Running", 88},
      {"paused since its condition turned", paused, TrainingStory(), "Paused", 60},
      {"suspended", suspended, Story().State(api::kStatePending), "Suspended", 30},
      {"starting: no status says since when", StartingStory(), TrainingStory(), nullptr, 0},
  };
  for (const Case& c : cases) {
    const JobChange change = ChangeBetween(c.before, c.after);

    ASSERT_EQ(change.phase_left.has_value(), c.phase != nullptr) << c.what;
    if (c.phase == nullptr) continue;
    EXPECT_EQ(change.phase_left->phase, c.phase) << c.what;
    EXPECT_DOUBLE_EQ(change.phase_left->lasted.count(), c.lasted) << c.what;
  }
}

TEST(JobChanges, WhatTheProcessKnowsOfAPhaseCountsBeforeTheStatus) {
  const JobChange change =
      ObserveChange(StartingStory().job, TrainingStory().job.status, At(7), At(12));

  ASSERT_TRUE(change.phase_left);
  EXPECT_EQ(change.phase_left->phase, api::kStateStarting);
  EXPECT_DOUBLE_EQ(change.phase_left->lasted.count(), 5);
}

TEST(JobChanges, AClockThatWasSetBackGivesNoNegativeTimes) {
  const JobChange change = ChangeBetween(TrainingStory(), StartingStory(), /*now=*/-50);

  ASSERT_TRUE(change.phase_left);
  EXPECT_DOUBLE_EQ(change.phase_left->lasted.count(), 0);
}

TEST(JobChanges, EachNewFailureIsARestartByRoleAndCause) {
  struct Case {
    api::Failure failure;
    Restart expected;
  };
  const Case cases[] = {
      {{.worker = "l", .pod_uid = "1", .reason = api::kReasonLauncherLost},
       {"launcher", "LauncherLost"}},
      {{.worker = "l", .pod_uid = "1", .reason = api::kReasonLauncherOOMKilled},
       {"launcher", "LauncherOOMKilled"}},
      {{.worker = "w", .pod_uid = "1", .rank = 0, .start = "a", .signal = 9, .reason = "OOMKilled"},
       {"rank", "OOMKilled"}},
      {{.worker = "w", .pod_uid = "1", .reason = "OOMKilled"}, {"worker", "OOMKilled"}},
      {{.worker = "w", .pod_uid = "1", .reason = "Evicted"}, {"worker", "Evicted"}},
      {{.worker = "w", .pod_uid = "1", .reason = api::kReasonNodeLost}, {"worker", "NodeLost"}},
      {{.worker = "w", .pod_uid = "1", .reason = "SomethingThatAKubeletMadeUp"},
       {"worker", "Other"}},
      {{.worker = "w",
        .pod_uid = "1",
        .rank = 2,
        .start = "a",
        .signal = 9,
        .reason = "RankFailed"},
       {"rank", "RankKilled"}},
      {{.worker = "w",
        .pod_uid = "1",
        .rank = 2,
        .start = "a",
        .exit_code = 3,
        .reason = "RankFailed"},
       {"rank", "RankExited"}},
      {{.worker = "w", .pod_uid = "1", .rank = 2, .start = "a", .reason = "RankFailed"},
       {"rank", "Stalled"}},
  };
  for (const Case& c : cases) {
    const JobChange change = ChangeBetween(TrainingStory(), TrainingStory().Fail(c.failure));

    EXPECT_EQ(change.restarts, std::vector<Restart>{c.expected}) << c.failure.reason;
    EXPECT_EQ(std::count(Restarts().begin(), Restarts().end(), c.expected), 1) << c.failure.reason;
  }
}

TEST(JobChanges, KnownFailuresAreNotRestartsAgainAlsoWhenTheListIsFull) {
  Story before = TrainingStory();
  for (std::size_t i = 0; i < api::kMaxFailures; ++i) {
    before.Fail({.pod_uid = std::to_string(i), .reason = "Error", .stack = "s"});
  }
  const Story after = Story(before)
                          .Fail({.pod_uid = "new", .reason = "Evicted", .stack = "t"})
                          .Fail({.pod_uid = "newer", .reason = "OOMKilled"});

  EXPECT_TRUE(ChangeBetween(before, before).restarts.empty());
  EXPECT_EQ(ChangeBetween(before, after).restarts,
            (std::vector<Restart>{{"worker", "OOMKilled"}, {"worker", "Evicted"}}));
}

TEST(JobChanges, TheEndCountsWithItsReasonAndItsFailureIsNoRestart) {
  const Story failed = TrainingStory()
                           .State(api::kStateFailed)
                           .Fail({.pod_uid = "1", .rank = 0, .start = "a", .exit_code = 3})
                           .Set(api::kFailed, true, 90, "RankFailed");
  const Story odd =
      TrainingStory().State(api::kStateFailed).Set(api::kFailed, true, 90, "Whatever");
  const Story done =
      TrainingStory().State(api::kStateSucceeded).Set(api::kSucceeded, true, 90, "Completed");

  const JobChange failure = ChangeBetween(TrainingStory(), failed);
  ASSERT_TRUE(failure.end);
  EXPECT_FALSE(failure.end->succeeded);
  EXPECT_EQ(failure.end->reason, "RankFailed");
  EXPECT_TRUE(failure.restarts.empty());
  EXPECT_EQ(ChangeBetween(TrainingStory(), odd).end->reason, "Other");
  EXPECT_TRUE(ChangeBetween(TrainingStory(), done).end->succeeded);
  EXPECT_EQ(ChangeBetween(TrainingStory(), done).end->reason, "Completed");
  EXPECT_FALSE(ChangeBetween(done, done).end);
}

TEST(JobChanges, ARecoveryCountsWhenItIsNew) {
  const api::Recovery first{.epoch = 2, .cause = "AgentLost", .detected_millis = 200};
  const api::Recovery second{.epoch = 3, .cause = "AgentLost", .detected_millis = 200};

  EXPECT_EQ(ChangeBetween(TrainingStory(), TrainingStory().Recover(first)).recovery, first);
  EXPECT_FALSE(
      ChangeBetween(TrainingStory().Recover(first), TrainingStory().Recover(first)).recovery);
  EXPECT_EQ(ChangeBetween(TrainingStory().Recover(first), TrainingStory().Recover(second)).recovery,
            second);
}

TEST(JobChanges, ADrainLastsFromTheMarkToTheDelete) {
  const Clock::Time now{seconds(1000)};
  const std::map<std::string, Clock::Time> leaving_since{{"drained", now - seconds(4)},
                                                         {"still-leaving", now - seconds(9)}};
  Plan plan;
  plan.deletes = {{.name = "a", .uid = "drained"}, {.name = "b", .uid = "lost"}};

  const std::vector<FloatSeconds> times = DrainTimes(plan, leaving_since, now);

  ASSERT_EQ(times.size(), 1u);
  EXPECT_DOUBLE_EQ(times[0].count(), 4);
}

TEST(JobChanges, AJobThatShallTrainWaitsUntilItDoes) {
  const Story paused = TrainingStory().State(api::kStatePaused).Set(api::kRunning, false, 40);
  const Story lost = TrainingStory().State(api::kStatePending).Set(api::kRunning, false, 60);
  Story resumed = StartingStory();
  resumed.job.status.start_time = FormatTime(At(30));

  EXPECT_EQ(WaitingSince(Story().State("").job), At(0));
  EXPECT_EQ(WaitingSince(StartingStory().job), At(0));
  EXPECT_EQ(WaitingSince(resumed.job), At(30));
  EXPECT_EQ(WaitingSince(lost.job), At(60));
  EXPECT_EQ(WaitingSince(paused.job), At(40));
  for (const char* state : {"Running", "Suspended", "Succeeded", "Failed"}) {
    EXPECT_FALSE(WaitingSince(TrainingStory().State(state).job)) << state;
  }
}

}  // namespace
}  // namespace ringmaster::job
