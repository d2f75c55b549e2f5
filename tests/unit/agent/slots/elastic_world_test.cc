// Tests how an agent prepares, starts, leaves and reports the epochs of an elastic job's ranks.

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/slots/fake_slot_actions.h"
#include "worker/agent/slots/elastic_slots.h"

namespace ringmaster::agent {
namespace {

using control::Epoch;
using control::EpochAccepted;
using control::RankEpoch;
using control::RankExited;
using control::RankLeave;
using control::RankReady;
using control::WorldReport;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class ElasticWorld : public testing::Test {
 protected:
  void SetUp() override {
    slots.Preload();
    ASSERT_TRUE(slots.OnWelcome(1));
    slots.OnRankHello(0);
  }

  void Run(Epoch epoch, const std::string& start = "n-1") {
    slots.OnStartEpoch(TestStart(epoch, 1, {start}));
  }
  void Kill() { slots.OnRankExit(0, {{-1, SIGKILL}, seconds(60), {}}); }
  std::vector<RankEpoch> Epochs() { return FakeSlotActions::Of<RankEpoch>(actions.to_rank[0]); }
  std::vector<RankLeave> Leaves() { return FakeSlotActions::Of<RankLeave>(actions.to_rank[0]); }

  FakeSlotActions actions;
  ElasticSlots slots{TestSlotsOptions(1, true), &actions};
};

TEST_F(ElasticWorld, ARunningRankContinuesInTheNextEpoch) {
  Run({1, 1});
  slots.OnPrepareEpoch({{1, 2}});
  Run({1, 2});

  ASSERT_EQ(Epochs().size(), 2U);
  EXPECT_EQ(Epochs()[1].epoch, (Epoch{1, 2}));
  EXPECT_EQ(Epochs()[1].rank, 1);
  EXPECT_EQ(Epochs()[1].members.size(), 2U);
  ASSERT_EQ(Leaves().size(), 1U);
  EXPECT_EQ(Leaves()[0].below, (Epoch{1, 2}));
  EXPECT_THAT(actions.started, ElementsAre(0));
  EXPECT_THAT(actions.stopped, IsEmpty());
}

TEST_F(ElasticWorld, ARankWhoseConnectionHasClosedReceivesNothingAndCountsAsEnded) {
  Run({1, 1});
  slots.OnRankDisconnected(0);
  slots.OnPrepareEpoch({{1, 2}});
  slots.OnTellWorld({{1, 1}});

  EXPECT_THAT(Leaves(), IsEmpty());
  EXPECT_THAT(actions.Sent<WorldReport>().back().running, IsEmpty());
}

TEST_F(ElasticWorld, ACheckpointIsAskedAboutUntilItIsGranted) {
  Run({1, 1});
  EXPECT_TRUE(slots.OnRankMessage(0, control::CheckpointWritten{{1, 1}, 1, 500, 0, 4096, "ff"}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::CheckpointWritten{{1, 0}, 1, 400, 0, 4096, "ff"}));
  ASSERT_TRUE(slots.OnWelcome(1));
  ASSERT_EQ(actions.Sent<control::CheckpointWritten>().size(), 2U);

  slots.OnCheckpointGrant({{1, 1}, 0, 500, 0});  // for another rank
  slots.OnCheckpointGrant({{1, 1}, 1, 500, 0});
  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(FakeSlotActions::Of<control::CheckpointGrant>(actions.to_rank[0]).size(), 1U);
  EXPECT_EQ(actions.Sent<control::CheckpointWritten>().size(), 2U);
}

TEST_F(ElasticWorld, RankZeroOfThisWorldIsAskedForACheckpoint) {
  control::StartEpoch start = TestStart({1, 1}, 1, {"n-1"});
  std::swap(start.members[0], start.members[1]);
  for (int rank : {0, 1}) start.members[static_cast<std::size_t>(rank)].rank = rank;
  slots.OnStartEpoch(start);
  slots.OnTakeCheckpoint({{1, 1}});
  slots.OnTakeCheckpoint({{1, 2}});
  EXPECT_EQ(FakeSlotActions::Of<control::TakeCheckpoint>(actions.to_rank[0]).size(), 1U);

  Run({1, 2});  // the member is rank 1
  slots.OnTakeCheckpoint({{1, 2}});
  EXPECT_EQ(FakeSlotActions::Of<control::TakeCheckpoint>(actions.to_rank[0]).size(), 1U);
}

TEST_F(ElasticWorld, AChangeOfItsWorldIsAWorldAndOfAnotherOneAReasonToDialAgain) {
  Run({1, 1});
  slots.OnChangeEpoch(
      {{1, 2}, 1, {1, 1}, {{0, 1}}, {{"new", "w-3", "n3", "10.0.0.3", 0, "a", 0}}, 5});

  ASSERT_EQ(Epochs().size(), 2U);
  EXPECT_EQ(Epochs()[1].rank, 0);
  EXPECT_EQ(Epochs()[1].full_size, 5);
  ASSERT_EQ(Epochs()[1].members.size(), 2U);
  EXPECT_EQ(Epochs()[1].members[0].pod_uid, "uid");
  EXPECT_EQ(Epochs()[1].members[1].pod_uid, "new");

  actions.Done();
  slots.OnChangeEpoch({{1, 5}, 1, {1, 4}, {{0, 1}}, {}});
  EXPECT_EQ(actions.Done(), "dial:epoch 1.5 builds on epoch 1.4, which this agent does not have");
  EXPECT_EQ(Epochs().size(), 2U);

  slots.OnChangeEpoch({{1, 1}, 1, {1, 0}, {{0, 1}}, {}});
  EXPECT_EQ(actions.Done(), "") << "that one is over";
  slots.End(milliseconds(10));
  actions.Done();
  slots.OnChangeEpoch({{1, 5}, 1, {1, 4}, {{0, 1}}, {}});
  EXPECT_EQ(actions.Done(), "") << "whatever comes, this agent is in no world any more";
}

TEST_F(ElasticWorld, ReportsTheMembersOfItsWorldOnRequest) {
  Run({1, 1});
  ASSERT_TRUE(slots.OnWelcome(1));
  slots.OnTellWorld({{1, 7}});
  EXPECT_THAT(actions.Sent<control::WorldReport>(), SizeIs(1)) << "a world that it is not in";
  slots.OnTellWorld({{1, 1}});

  const auto reports = actions.Sent<control::WorldReport>();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_THAT(reports[0].members, IsEmpty());
  EXPECT_EQ(reports[1].members.size(), 2U);
  EXPECT_THAT(reports[1].running, ElementsAre("n-1"));
}

TEST_F(ElasticWorld, WhatARankKeepsAndCannotKeepIsRepeatedWhileItRuns) {
  Run({1, 1});
  EXPECT_TRUE(slots.OnRankMessage(0, control::CheckpointDone{{1, 1}, 1, 500}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankBegan{{1, 1}, 9, {500, "it began with"}}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankBegan{{1, 7}, 9, {600, "no world of it"}}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankProtection{9, "snapshot", "no memory"}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankProtection{9, "checkpoint", "no space"}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankProtection{9, "checkpoint", ""}));
  Run({1, 2});
  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(actions.Sent<control::CheckpointDone>().size(), 2U);
  ASSERT_EQ(actions.Sent<control::RankBegan>().size(), 2U);
  EXPECT_EQ(actions.Sent<control::RankBegan>()[1].beginning.step, 500);
  EXPECT_NE(actions.Sent<control::RankBegan>()[1].rank, 9) << "the agent knows which rank it is";
  ASSERT_EQ(actions.Sent<control::RankProtection>().size(), 4U);
  EXPECT_EQ(actions.Sent<control::RankProtection>()[3].fault, "no memory");
  EXPECT_EQ(actions.Sent<control::RankProtection>()[3].slot, 0);

  Kill();
  ASSERT_TRUE(slots.OnWelcome(1));
  EXPECT_EQ(actions.Sent<control::RankProtection>().size(), 4U);
}

TEST_F(ElasticWorld, PrepareIsAnsweredAgainAndNoLowerEpochIsAcceptedAfterIt) {
  Run({1, 1});
  slots.OnPrepareEpoch({{1, 3}});
  slots.OnPrepareEpoch({{1, 3}});
  slots.OnPrepareEpoch({{1, 2}});
  Run({1, 2});

  const auto accepted = actions.Sent<EpochAccepted>();
  ASSERT_EQ(accepted.size(), 2U);
  EXPECT_EQ(accepted[1].epoch, (Epoch{1, 3}));
  EXPECT_EQ(Epochs().size(), 1U);
  EXPECT_EQ(slots.highest_epoch(), (Epoch{1, 3}));
}

TEST_F(ElasticWorld, APlaceThatWasNotTakenEndsWithItsEpoch) {
  Kill();  // the next process, n-2, loads
  slots.OnStartEpoch(TestStart({1, 1}, 1, {""}));
  slots.OnPrepareEpoch({{1, 2}});

  slots.OnRankHello(0);

  EXPECT_THAT(Epochs(), IsEmpty());
}

TEST_F(ElasticWorld, TheSameEpochAgainOpensNoGateAndForgetsNoEnd) {
  Kill();  // the next process, n-2, loads
  slots.OnAttach(7, TestAttach(1, 0));
  Run({1, 1}, "n-2");
  Run({1, 1}, "n-2");
  EXPECT_EQ(FakeSlotActions::Of<control::AttachGo>(actions.to_attach[7]).size(), 1U);

  slots.OnRankHello(0);
  Kill();
  Run({1, 1}, "n-2");
  actions.to_launcher.clear();
  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(actions.Sent<RankExited>().size(), 1U);
}

TEST_F(ElasticWorld, AnEpochThatItIsInIsNoReasonToLeave) {
  Run({1, 2});
  slots.OnPrepareEpoch({{1, 2}});  // sent again, because the answer was lost
  slots.OnSwitchEpoch({{1, 1}, false});
  slots.OnSwitchEpoch({{1, 3}, false});

  EXPECT_THAT(Leaves(), IsEmpty());
  EXPECT_THAT(FakeSlotActions::Of<control::RankSwitch>(actions.to_rank[0]), IsEmpty());

  slots.OnSwitchEpoch({{1, 2}, true});

  EXPECT_EQ(FakeSlotActions::Of<control::RankSwitch>(actions.to_rank[0]).size(), 1U);
}

TEST_F(ElasticWorld, OfTooManyThingsThatAreNotKeptTheFirstAreRepeated) {
  for (int kind = 0; kind < 9; ++kind) {
    ASSERT_TRUE(slots.OnRankMessage(0, control::RankProtection{0, std::to_string(kind), "old"}));
  }
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankProtection{0, "7", "new"}));
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(1));

  const auto told = actions.Sent<control::RankProtection>();
  ASSERT_EQ(told.size(), 8U);
  EXPECT_EQ(told.back().what, "7");
  EXPECT_EQ(told.back().fault, "new");
}

TEST_F(ElasticWorld, WhoIsNoMemberIsLeftAlone) {
  Run({1, 1});

  slots.OnStartEpoch(TestStart({1, 2}, 1, {}));

  EXPECT_EQ(Epochs().size(), 1U);
  EXPECT_THAT(actions.stopped, IsEmpty());
}

TEST_F(ElasticWorld, AnEpochOfThePreviousProcessIsNotAssignedToTheNext) {
  Run({1, 1});
  Kill();
  slots.OnRankHello(0);

  Run({1, 2}, "n-1");

  EXPECT_EQ(Epochs().size(), 1U);
  const RankExited again = actions.Sent<RankExited>().back();
  EXPECT_EQ(again.epoch, (Epoch{1, 2})) << "its end is told in the epoch that counted on it";
  EXPECT_EQ(again.exit.start, "n-1");
  EXPECT_EQ(again.exit.rank, 1);
}

TEST_F(ElasticWorld, ARankThatDiedWhileTheEpochFormedJoinsTheNextAsNew) {
  Run({1, 1});
  slots.OnPrepareEpoch({{1, 2}});
  Kill();
  slots.OnRankHello(0);
  slots.OnPrepareEpoch({{1, 3}});
  Run({1, 3}, "n-2");

  EXPECT_EQ(Epochs().back().epoch, (Epoch{1, 3}));
}

TEST_F(ElasticWorld, StopEndsOnlyRanksOfThoseEpochs) {
  Run({1, 2});

  slots.OnStopEpoch({{1, 1}, 500});
  EXPECT_THAT(actions.stopped, IsEmpty());
  slots.OnStopEpoch({{1, 2}, 500});
  EXPECT_THAT(actions.stopped, ElementsAre(0));
}

TEST_F(ElasticWorld, AStoppedEpochDoesNotStartWhenTheRankHasLoaded) {
  Kill();  // the next process, n-2, loads
  Run({1, 2}, "");
  slots.OnStopEpoch({{1, 2}, 500});
  slots.OnRankHello(0);

  EXPECT_THAT(Epochs(), IsEmpty());
}

TEST_F(ElasticWorld, MessagesOfTheRanksEpochArePassedOnWithItsRank) {
  Run({1, 2});
  actions.to_launcher.clear();

  EXPECT_TRUE(slots.OnRankMessage(0, control::RankProgress{{1, 2}, {}}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 2}, 9}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankAtBoundary{{1, 2}, 9, 40}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankBroken{{1, 2}, 9, 0, "reset by peer"}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 2}, "key", "value"}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 2}, 5, 9, {"key"}}));

  ASSERT_EQ(actions.to_launcher.size(), 6U);
  EXPECT_EQ(actions.Sent<control::RankDone>()[0].rank, 1);
  EXPECT_EQ(actions.Sent<control::RankAtBoundary>()[0].rank, 1);
  EXPECT_EQ(actions.Sent<control::RankAtBoundary>()[0].step, 40);
  EXPECT_EQ(actions.Sent<control::RankBroken>()[0].rank, 1);
  EXPECT_EQ(actions.Sent<control::RankBroken>()[0].peer, 0);
  EXPECT_EQ(actions.Sent<control::StoreGet>()[0].rank, 1);
}

TEST_F(ElasticWorld, MessagesOfAnotherEpochAreNot) {
  Run({1, 2});
  actions.to_launcher.clear();

  EXPECT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 1}, 1}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankAtBoundary{{1, 3}, 1, 40}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::RankBroken{{1, 1}, 1, 0, "late"}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 1}, "key", "value"}));
  EXPECT_FALSE(slots.OnRankMessage(0, control::Shutdown{}));

  EXPECT_THAT(actions.to_launcher, IsEmpty());
}

TEST_F(ElasticWorld, AWelcomeRepeatsWhatHoldsAndTheStateComesBeforeTheReport) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 2}, "key", "value"}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 2}, 5, 1, {"answered"}}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 2}, 6, 1, {"open"}}));
  slots.OnStoreValues({{1, 2}, 5, 1, {"yes"}});
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankAtBoundary{{1, 2}, 1, 40}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 2}, 1}));
  slots.OnPrepareEpoch({{1, 3}});
  actions.Done();
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(actions.Done(),
            "launcher:RankReady n-1, launcher:WorldReport 1.2, launcher:EpochAccepted 1.3, "
            "launcher:StoreSet 1.2, launcher:StoreGet 1.2, launcher:RankAtBoundary 1.2, "
            "launcher:RankDone 1.2");
  EXPECT_EQ(actions.Sent<control::StoreGet>()[0].id, 6);
  const WorldReport report = actions.Sent<WorldReport>()[0];
  EXPECT_THAT(report.members, IsEmpty());  // sent only if the launcher asks for them
  EXPECT_THAT(report.running, ElementsAre("n-1"));
}

TEST_F(ElasticWorld, RepeatsStoreRequestsOfConnectingRanksToANewLauncher) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 2}, "key", "value"}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 2}, 6, 1, {"open"}}));
  actions.Done();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_EQ(actions.Done(),
            "launcher:RankReady n-1, launcher:WorldReport 1.2, launcher:StoreSet 1.2, "
            "launcher:StoreGet 1.2");
  slots.OnStoreValues({{1, 2}, 6, 1, {"yes"}});
  EXPECT_EQ(actions.Done(), "rank:StoreValues 1.2");
}

TEST_F(ElasticWorld, ARankThatLeftItsBrokenWorldAsksNothingAnyMore) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 2}, "key", "value"}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 2}, 6, 1, {"too late"}}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankBroken{{1, 2}, 1, 0, "nobody came"}));
  actions.Done();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_EQ(actions.Done(),
            "launcher:RankReady n-1, launcher:WorldReport 1.2, launcher:StoreSet 1.2, "
            "launcher:RankBroken 1.2");
}

TEST_F(ElasticWorld, AKeyThatIsSetAgainIsRepeatedOnce) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 2}, "key", "old"}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 2}, "key", "new"}));
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(2));

  const auto sets = actions.Sent<control::StoreSet>();
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_EQ(sets[0].value, "new");
}

TEST_F(ElasticWorld, TheNextLauncherSeesThatAReleasedRankEndedWell) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 2}, 1}));
  slots.OnRelease({{1, 2}});
  slots.OnRankDisconnected(0);
  slots.OnRankExit(0, {{0, 0}, seconds(60), {}});
  actions.Done();
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_EQ(actions.Done(),
            "launcher:WorldReport 1.2, launcher:RankDone 1.2, launcher:RankExited 1.2 code 0");
  EXPECT_THAT(actions.Sent<WorldReport>()[0].running, IsEmpty());
  EXPECT_TRUE(actions.Sent<WorldReport>()[0].released);
  ASSERT_EQ(actions.Sent<control::RankDone>().size(), 1U);
  EXPECT_EQ(actions.Sent<control::RankDone>()[0].rank, 1);
}

TEST_F(ElasticWorld, TheNextLauncherSeesThatAReleasedRankRunsAlthoughItClosedItsConnection) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 2}, 1}));
  slots.OnRelease({{1, 2}});
  slots.OnRankDisconnected(0);
  actions.Done();
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_EQ(actions.Done(), "launcher:WorldReport 1.2, launcher:RankDone 1.2");
  EXPECT_THAT(actions.Sent<WorldReport>()[0].running, SizeIs(1));
}

TEST_F(ElasticWorld, AReleasedRankThatEndedBadlyIsNotDone) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 2}, 1}));
  slots.OnRelease({{1, 2}});
  slots.OnRankExit(0, {{1, 0}, seconds(60), {}});
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_THAT(actions.Sent<control::RankDone>(), IsEmpty());
  EXPECT_TRUE(actions.Sent<WorldReport>()[0].released);
  EXPECT_EQ(actions.Sent<RankExited>().size(), 1U);
}

TEST_F(ElasticWorld, WhatHeldInOneEpochDoesNotInTheNext) {
  Run({1, 2});
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankAtBoundary{{1, 2}, 1, 40}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 2}, 1}));
  slots.OnRelease({{1, 2}});
  Run({1, 3});
  actions.Done();
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(actions.Done(), "launcher:RankReady n-1, launcher:WorldReport 1.3");
  EXPECT_FALSE(actions.Sent<WorldReport>()[0].released);
}

TEST_F(ElasticWorld, AReportNamesTheRunningProcesses) {
  Run({1, 2});
  Kill();
  slots.OnRankHello(0);
  actions.Done();
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_EQ(actions.Done(),
            "launcher:RankReady n-2, launcher:WorldReport 1.2, launcher:RankExited 1.2 signal 9");
  EXPECT_THAT(actions.Sent<WorldReport>()[0].running, ElementsAre("n-2"));
}

TEST_F(ElasticWorld, AReportNamesProcessesThatLoadForItsWorldButNoneThatMustEnd) {
  Kill();  // the next process, n-2, loads
  Run({1, 1}, "");
  slots.OnTellWorld({{1, 1}});
  EXPECT_THAT(actions.Sent<WorldReport>().back().running, ElementsAre("n-2"));

  slots.OnRankHello(0);
  slots.OnStopEpoch({{1, 1}, 500});
  slots.OnTellWorld({{1, 1}});
  EXPECT_THAT(actions.Sent<WorldReport>().back().running, IsEmpty());

  slots.OnRankExit(0, {{-1, SIGTERM}, seconds(60), {}});
  slots.OnRankHello(0);
  slots.End(milliseconds(10));
  slots.OnTellWorld({{1, 1}});
  EXPECT_THAT(actions.Sent<WorldReport>().back().running, IsEmpty());
}

TEST_F(ElasticWorld, TheEndOfAnyMemberIsNewsWhenTheNextProcessHasLoaded) {
  for (const int rank : {0, 1}) {
    FakeSlotActions told;
    ElasticSlots one(TestSlotsOptions(1, true), &told);
    one.Preload();
    one.OnRankHello(0);
    control::StartEpoch start = TestStart({1, 2}, 1, {"n-1"});
    start.members[0].rank = 1 - rank;
    start.members[1].rank = rank;
    one.OnStartEpoch(start);
    one.OnRankExit(0, {{-1, SIGKILL}, seconds(60), {}});
    one.OnRankExit(0, {{1, 0}, seconds(60), {}});  // process n-2 ends while it loads
    one.OnRankHello(0);
    told.to_launcher.clear();

    ASSERT_TRUE(one.OnWelcome(2));

    ASSERT_EQ(told.Sent<RankExited>().size(), 1U) << rank;
    EXPECT_EQ(told.Sent<RankExited>()[0].exit.start, "n-1") << rank;
  }
}

TEST_F(ElasticWorld, AWorkerThatWasInNoWorldReportsNone) {
  actions.Done();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_EQ(actions.Done(), "launcher:RankReady n-1");
}

TEST_F(ElasticWorld, AnEndIsOldNewsOnceTheNextProcessIsInAWorld) {
  Run({1, 2});
  Kill();
  slots.OnRankHello(0);
  Run({1, 3}, "n-2");
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_THAT(actions.Sent<RankExited>(), IsEmpty());
}

TEST_F(ElasticWorld, ANewLauncherClosesTheOldOnesAttachesAndDisturbsNoRank) {
  slots.OnAttach(7, TestAttach(1, 0));
  Run({1, 2});
  slots.OnPrepareEpoch({{1, 3}});
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_THAT(actions.closed_attaches, ElementsAre(7));
  EXPECT_THAT(actions.stopped, IsEmpty());
  EXPECT_THAT(actions.Sent<control::SlotAttached>(), IsEmpty());
  EXPECT_THAT(actions.Sent<EpochAccepted>(), IsEmpty()) << "that was another launcher's question";
  EXPECT_EQ(actions.Sent<WorldReport>().size(), 1U);

  slots.OnPrepareEpoch({{2, 1}});
  Run({2, 1});
  EXPECT_EQ(Epochs().back().epoch, (Epoch{2, 1}));
}

TEST_F(ElasticWorld, ALauncherOfALowerTermIsNotFollowed) {
  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_FALSE(slots.OnWelcome(1));
  Run({3, 1});
  EXPECT_FALSE(slots.OnWelcome(2));
  EXPECT_TRUE(slots.OnWelcome(3));
}

}  // namespace
}  // namespace ringmaster::agent
