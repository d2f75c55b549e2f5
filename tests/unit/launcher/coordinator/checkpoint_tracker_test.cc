// Tests which rank may complete a checkpoint, and what the status reports about checkpoints.

#include "worker/launcher/model/checkpoint_tracker.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::CheckpointDone;
using control::CheckpointGrant;
using control::CheckpointWritten;
using control::LauncherPhase;
using control::RankProtection;
using testing::IsEmpty;
using testing::SizeIs;

class CheckpointTrackerTest : public testing::Test {
 protected:
  CheckpointTrackerTest() {
    world.Order({0, 1, 2}, 3, 1);
    for (const int worker : {0, 1, 2}) world.Arrive(worker);
    world.AttachAll();
    world.Commit(0, 10);
  }
  CheckpointWritten Written(int rank = 0) const {
    return {world.membership.epoch(), rank, 500, 0, 4096, "00ff"};
  }
  void Lose(int worker) {
    world.Close(worker);
    world.Take(world.membership.OnProbe(world.now, World::Uid(worker), true));
  }
  // Lets rank 0, which runs on this worker, write and complete a checkpoint of this step.
  void Complete(int worker, int64_t step, int64_t bytes = 0) {
    const control::Epoch epoch = world.membership.epoch();
    world.Say(worker, CheckpointWritten{epoch, 0, step, 0, 4096, "00ff"});
    world.Say(worker, CheckpointDone{epoch, 0, step, bytes});
  }
  control::LauncherStatus Status() const { return world.membership.Status(world.now); }

  World world;
};

TEST_F(CheckpointTrackerTest, AMemberOfTheRunningWorldIsGranted) {
  world.Say(0, Written());

  ASSERT_EQ(world.Sent<CheckpointGrant>(0), 1);
  EXPECT_EQ(world.Sent<CheckpointGrant>(), 1);
}

TEST_F(CheckpointTrackerTest, AnotherEpochAnotherRankOrNoRankIsNot) {
  CheckpointWritten old = Written();
  old.epoch.number -= 1;
  world.Say(0, old);
  world.Say(1, Written(0));
  world.Say(0, Written(3));  // there are only ranks 0 to 2
  world.Say(0, Written(-1));

  EXPECT_EQ(world.Sent<CheckpointGrant>(), 0);
}

TEST_F(CheckpointTrackerTest, NoGrantWhileTheNextWorldFormsAndOneForTheSurvivorAfterwards) {
  Lose(1);
  ASSERT_EQ(world.phase(), LauncherPhase::kForming);
  world.Say(0, Written());
  EXPECT_EQ(world.Sent<CheckpointGrant>(), 0);

  world.Accept({0, 2});
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);
  world.Say(0, Written());

  EXPECT_EQ(world.Sent<CheckpointGrant>(0), 1);
}

TEST_F(CheckpointTrackerTest, AFencedPodIsNeverGranted) {
  const CheckpointWritten written = Written(1);
  Lose(1);
  world.Accept({0, 2});
  world.Dial(1, 900);
  world.Take(world.membership.OnMessage(world.now, 900, written));

  EXPECT_EQ(world.Sent<CheckpointGrant>(), 0);
}

TEST_F(CheckpointTrackerTest, TheStatusHasTheNewestCompleteOneAndItsAge) {
  Complete(0, 0, 12'000);
  EXPECT_FALSE(Status().checkpoint.has_value()) << "of no step";
  Complete(0, 1);
  EXPECT_TRUE(Status().checkpoint.has_value()) << "of the first step";
  Complete(0, 400, -1);
  ASSERT_TRUE(Status().checkpoint.has_value());
  EXPECT_EQ(Status().checkpoint->bytes, 0);
  EXPECT_EQ(Status().checkpoint->age_millis, 0);
  Complete(0, 500, 12'000);
  world.Pass(2000ms, {0, 1, 2});
  world.Say(0, CheckpointDone{world.membership.epoch(), 0, 500, 12'000});  // repeated after Welcome

  ASSERT_TRUE(Status().checkpoint.has_value());
  EXPECT_EQ(Status().checkpoint->step, 500);
  EXPECT_EQ(Status().checkpoint->bytes, 12'000);
  EXPECT_EQ(Status().checkpoint->age_millis, 2000);
}

TEST_F(CheckpointTrackerTest, TheVerdictHasTheNewestCompleteOne) {
  Complete(0, 500, 12'000);
  const control::Epoch epoch = world.membership.epoch();
  for (const int rank : {0, 1, 2}) {
    world.Say(rank, control::RankDone{.epoch = epoch, .rank = rank, .trained = true});
  }
  for (const int worker : {0, 1, 2}) world.Exit(worker, 0);
  world.MpirunEnds(0);

  ASSERT_TRUE(world.Decided());
  ASSERT_TRUE(world.Verdict()->verdict.checkpoint.has_value());
  EXPECT_EQ(world.Verdict()->verdict.checkpoint->step, 500);
  EXPECT_EQ(world.Verdict()->verdict.checkpoint->bytes, 12'000);
}

TEST_F(CheckpointTrackerTest, OnlyTheRankThatWasGrantedACheckpointCompletesItAndThatOneAlone) {
  const control::Epoch epoch = world.membership.epoch();
  world.Say(0, CheckpointDone{epoch, 0, 500});  // nothing is granted yet
  world.Say(0, Written(0));
  world.Say(1, CheckpointDone{epoch, 0, 500});  // sent by the Pod of another worker
  world.Say(1, CheckpointDone{epoch, 1, 500});
  world.Say(0, CheckpointDone{epoch, 0, 501});  // another step
  world.Say(0, CheckpointDone{{epoch.term, epoch.number + 1}, 0, 500});
  EXPECT_FALSE(Status().checkpoint.has_value());

  world.Say(0, CheckpointDone{epoch, 0, 500});

  ASSERT_TRUE(Status().checkpoint.has_value());
  EXPECT_EQ(Status().checkpoint->step, 500);
}

TEST_F(CheckpointTrackerTest, RankZeroOfTheWorldReportsWithWhatItBegan) {
  const control::Epoch epoch = world.membership.epoch();
  world.Say(1, control::RankBegan{epoch, 1, {7, "another rank's"}});
  world.Say(1, control::RankBegan{epoch, 0, {7, "another worker's"}});
  world.Say(0, control::RankBegan{{epoch.term, epoch.number + 1}, 0, {7, "another world's"}});
  EXPECT_FALSE(Status().beginning.has_value());

  world.Say(0, control::RankBegan{epoch, 0, {500, std::string(10'000, 'x')}});

  ASSERT_TRUE(Status().beginning.has_value());
  EXPECT_EQ(Status().beginning->step, 500);
  EXPECT_EQ(Status().beginning->message.size(), 800U);

  world.Say(0, control::RankBegan{epoch, 0, {-1, "no step"}});
  EXPECT_EQ(Status().beginning->step, 0);
}

TEST_F(CheckpointTrackerTest, RankZeroOfTheWorldReportsTheCheckpointItResumesFrom) {
  const control::Epoch epoch = world.membership.epoch();
  world.Pass(1s, {0, 1, 2});
  const control::KeptCheckpoint kept{.step = 500, .bytes = 4096, .age_millis = 60'000};
  world.Say(1, control::RankBegan{epoch, 1, {500, ""}, kept});
  world.Say(0, control::RankBegan{{epoch.term, epoch.number + 1}, 0, {500, ""}, kept});
  world.Say(0, control::RankBegan{epoch, 0, {0, ""}, control::KeptCheckpoint{.step = 0}});
  EXPECT_FALSE(Status().checkpoint.has_value());

  world.Say(0, control::RankBegan{epoch, 0, {500, ""}, kept});

  ASSERT_TRUE(Status().checkpoint.has_value());
  EXPECT_EQ(Status().checkpoint->step, 500);
  EXPECT_EQ(Status().checkpoint->bytes, 4096);
  EXPECT_EQ(Status().checkpoint->age_millis, 60'000);
  EXPECT_FALSE(Status().beginning.has_value()) << "there is nothing to say of it";

  Complete(0, 510);
  world.Say(0, control::RankBegan{epoch, 0, {500, ""}, kept});  // repeated after a Welcome
  EXPECT_EQ(Status().checkpoint->step, 510);
}

TEST_F(CheckpointTrackerTest, AnAgeThatNoClockCanHaveIsNone) {
  constexpr int64_t kTenYears = int64_t{3650} * 24 * 60 * 60 * 1000;
  struct Case {
    int64_t said;
    int64_t age;
  };
  for (const Case& c : {Case{std::numeric_limits<int64_t>::min(), 0}, Case{-1, 0}, Case{0, 0},
                        Case{1, 1}, Case{std::numeric_limits<int64_t>::max(), kTenYears}}) {
    const control::Epoch epoch{3, 1};
    const control::KeptCheckpoint kept{.step = 1, .bytes = -1, .age_millis = c.said};
    CheckpointTracker tracker;
    tracker.Began(world.now, {epoch, 0, {}, kept}, "a", epoch, {{"a", "w", "n", "", 0, "f", 0}});

    ASSERT_TRUE(tracker.Newest(world.now).has_value());
    EXPECT_EQ(tracker.Newest(world.now)->age_millis, c.age);
    EXPECT_EQ(tracker.Newest(world.now)->bytes, 0);
  }
}

TEST_F(CheckpointTrackerTest, RankZeroIsAskedForACheckpointOncePerWorldUntilOneIsComplete) {
  world.wants_checkpoint = true;
  world.Order({0, 1, 2}, 3, 1);
  world.Pass(1s, {0, 1, 2});
  EXPECT_EQ(world.Sent<control::TakeCheckpoint>(0), 1);
  EXPECT_EQ(world.Sent<control::TakeCheckpoint>(), 1);

  Lose(0);  // the request is lost with worker 0
  world.Accept({1, 2});
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);
  world.Pass(100ms, {1, 2});
  EXPECT_EQ(world.Sent<control::TakeCheckpoint>(1), 1);

  Complete(1, 9);  // older than the last step, 10
  world.Pass(CheckpointTracker::kAskAgain, {1, 2});
  EXPECT_EQ(world.Sent<control::TakeCheckpoint>(1), 2) << "another one was under way";

  Complete(1, 11);
  world.Pass(2 * CheckpointTracker::kAskAgain, {1, 2});
  EXPECT_EQ(world.Sent<control::TakeCheckpoint>(), 3);
}

TEST_F(CheckpointTrackerTest, NoRankIsAskedForACheckpointThatExistsOrIsNotRequested) {
  Complete(0, 10);
  world.wants_checkpoint = true;
  world.Order({0, 1, 2}, 3, 1);
  world.wants_checkpoint = false;
  world.Order({0, 1, 2}, 3, 1);
  world.Pass(2 * CheckpointTracker::kAskAgain, {0, 1, 2});

  EXPECT_EQ(world.Sent<control::TakeCheckpoint>(), 0);
}

TEST_F(CheckpointTrackerTest, AStepOfALaterEpochIsNewerAlsoAfterARollBack) {
  Complete(0, 500);
  Lose(1);
  world.Accept({0, 2});
  Complete(0, 400);

  EXPECT_EQ(Status().checkpoint->step, 400);
}

TEST_F(CheckpointTrackerTest, ReportsAFaultUntilTheStateIsKeptOrTheRankEnds) {
  world.Say(0, RankProtection{0, "checkpoint", "no space left"});
  world.Say(1, RankProtection{0, "snapshot", "no memory"});
  for (const int no_slot : {-1, 1}) world.Say(1, RankProtection{no_slot, "copy", "x"});
  ASSERT_THAT(Status().unprotected, SizeIs(2));
  EXPECT_EQ(Status().unprotected[0].what, "checkpoint");
  EXPECT_EQ(Status().unprotected[0].pod, "digits-worker-0");
  EXPECT_EQ(Status().unprotected[0].message, "no space left");

  world.Say(0, RankProtection{0, "checkpoint", ""});
  world.Exit(1, 0, 9);

  EXPECT_THAT(Status().unprotected, IsEmpty());
}

TEST_F(CheckpointTrackerTest, AllLostIsARecoveryThatReportsTheLostSteps) {
  world.Commit(0, 120);
  for (const int worker : {0, 1, 2}) world.Exit(worker, 0, 9);
  world.MpirunEnds(137);
  for (const int worker : {0, 1, 2}) world.Reload(worker, "second");
  world.AttachAll();
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);

  world.Commit(0, 101);  // first step after checkpoint 100

  ASSERT_TRUE(Status().last_recovery.has_value());
  EXPECT_EQ(Status().last_recovery->steps_lost, 20);
  EXPECT_EQ(Status().last_recovery->cause, "RankKilled");
}

TEST(CheckpointTracker, ReportsOneFaultOfEachKindBriefly) {
  CheckpointTracker tracker;
  for (int slot = 0; slot < 8; ++slot) {
    tracker.Protection("a", "w", {slot, "snapshot", std::string(1000, 'x')});
  }
  tracker.Protection("b", "v", {0, "checkpoint", "no space left"});

  const auto faults = tracker.Faults();
  ASSERT_THAT(faults, SizeIs(2));
  EXPECT_EQ(faults[0].message.size(), 400U);
  EXPECT_EQ(faults[1].what, "checkpoint");
  EXPECT_EQ(faults[1].pod, "v");

  for (int kind = 0; kind < 8; ++kind) {
    tracker.Protection("c", "u", {0, "kind " + std::to_string(kind), "x"});
  }
  EXPECT_THAT(tracker.Faults(), SizeIs(4));
}

TEST(CheckpointTracker, AsksAgainAfterAWhile) {
  const Clock::Time begin{1h};
  const control::Epoch epoch{3, 1};
  CheckpointTracker tracker;

  EXPECT_TRUE(tracker.AskNow(begin, true, epoch, 10));
  EXPECT_FALSE(tracker.AskNow(begin + CheckpointTracker::kAskAgain - 1ms, true, epoch, 10));
  EXPECT_TRUE(tracker.AskNow(begin + CheckpointTracker::kAskAgain, true, epoch, 10));
}

TEST(CheckpointTracker, ARestartedSlotLosesOnlyItsOwnGrantAndFaults) {
  const control::Epoch epoch{3, 1};
  const std::vector<control::Member> members = {{"a", "w", "n", "", 0, "first", 0},
                                                {"a", "w", "n", "", 1, "first", 1}};
  CheckpointTracker tracker;
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(tracker.Grants({epoch, rank, 500, 0, 4096, "00ff"}, "a", epoch, members));
    tracker.Protection("a", "w", {rank, rank == 0 ? "snapshot" : "copy", "no memory"});
  }

  tracker.Forget("a", 0);

  ASSERT_THAT(tracker.Faults(), SizeIs(1));
  EXPECT_EQ(tracker.Faults().front().what, "copy");
  tracker.Completed({}, "a", {epoch, 0, 500});
  EXPECT_FALSE(tracker.Newest({}));
  tracker.Completed({}, "a", {epoch, 1, 500});
  EXPECT_TRUE(tracker.Newest({}));
  tracker.Forget("a");  // forgets all slots of the Pod
  EXPECT_THAT(tracker.Faults(), IsEmpty());
}

}  // namespace
}  // namespace ringmaster::launcher
