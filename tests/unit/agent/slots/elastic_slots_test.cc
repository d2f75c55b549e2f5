// Tests rank processes of an elastic job: their starts, ends, attaches and output.
// elastic_world_test.cc tests epochs; elastic_table_test.cc tests all events in all states.

#include "worker/agent/slots/elastic_slots.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/slots/fake_slot_actions.h"

namespace ringmaster::agent {
namespace {

using control::AttachExit;
using control::AttachGo;
using control::RankExited;
using control::RankOutput;
using control::RankReady;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ElasticSlotsTest : public testing::Test {
 protected:
  void SetUp() override {
    slots.Preload();
    ASSERT_TRUE(slots.OnWelcome(1));
  }

  // Starts the first world: the rank sends RankHello, mpirun's attach connects, the gate opens.
  void OpenGate(AttachId attach = 7) {
    slots.OnRankHello(0);
    slots.OnAttach(attach, TestAttach(1, 0));
    slots.OnStartEpoch(TestStart({1, 1}, 1, {"n-1"}));
  }
  void Exit(ProcessEnd end, milliseconds lived = seconds(60),
            std::vector<std::string> last_lines = {}) {
    slots.OnRankExit(0, {end, lived, std::move(last_lines)});
  }
  std::vector<AttachExit> AttachExits(AttachId attach = 7) {
    return FakeSlotActions::Of<AttachExit>(actions.to_attach[attach]);
  }

  FakeSlotActions actions;
  ElasticSlots slots{TestSlotsOptions(1, true), &actions};
};

TEST_F(ElasticSlotsTest, ARankIsLoadedEarlyAndReportedWhenItCanJoin) {
  EXPECT_THAT(actions.started, ElementsAre(0));
  EXPECT_THAT(actions.Sent<RankReady>(), IsEmpty());

  slots.OnRankHello(0);

  ASSERT_EQ(actions.Sent<RankReady>().size(), 1U);
  EXPECT_EQ(actions.Sent<RankReady>()[0].start, "n-1");
}

TEST_F(ElasticSlotsTest, ALackOfMemoryIsReportedWithTheEndItCaused) {
  OpenGate();
  actions.out_of_memory = control::OutOfMemory{100, 99};

  Exit({-1, SIGKILL});
  Exit({-1, SIGKILL});

  const auto exits = actions.Sent<RankExited>();
  ASSERT_EQ(exits.size(), 2U);
  ASSERT_TRUE(exits[0].exit.out_of_memory.has_value());
  EXPECT_EQ(exits[0].exit.out_of_memory->peak_bytes, 99);
  EXPECT_FALSE(exits[1].exit.out_of_memory.has_value());
}

TEST_F(ElasticSlotsTest, AKilledRankIsReportedAtOnceAndStartedAgainOnceItHasEnded) {
  OpenGate();
  actions.out_of_memory = control::OutOfMemory{100, 99};

  slots.OnRankKilled(0, {"words"});

  ASSERT_EQ(actions.Sent<RankExited>().size(), 1U);
  const RankExited first = actions.Sent<RankExited>()[0];
  EXPECT_EQ(first.epoch, (control::Epoch{1, 1}));
  EXPECT_EQ(first.exit.rank, 1);
  EXPECT_EQ(first.exit.start, "n-1");
  EXPECT_EQ(first.exit.signal, SIGKILL);
  EXPECT_TRUE(first.exit.out_of_memory.has_value());
  EXPECT_THAT(first.exit.last_lines, ElementsAre("words"));
  EXPECT_THAT(actions.started, ElementsAre(0)) << "its memory is in use";
  EXPECT_TRUE(slots.AnyRankRunning());

  // The exit report keeps the first explanation: a later one may explain another rank's kill.
  actions.out_of_memory = control::OutOfMemory{100, 98};
  Exit({-1, SIGKILL}, seconds(60), {"last words"});

  ASSERT_EQ(actions.Sent<RankExited>().size(), 2U);
  const RankExited second = actions.Sent<RankExited>()[1];
  EXPECT_EQ(second.exit.start, "n-1");
  ASSERT_TRUE(second.exit.out_of_memory.has_value());
  EXPECT_EQ(second.exit.out_of_memory->peak_bytes, 99);
  EXPECT_THAT(second.exit.last_lines, ElementsAre("last words"));
  EXPECT_TRUE(actions.out_of_memory.has_value());
  EXPECT_THAT(actions.started, ElementsAre(0, 0));
}

TEST_F(ElasticSlotsTest, TheEndOfAKilledRankDoesNotTakeAnothersLackOfMemory) {
  OpenGate();
  slots.OnRankKilled(0, {});
  actions.out_of_memory = control::OutOfMemory{100, 98};

  Exit({-1, SIGKILL});

  EXPECT_FALSE(actions.Sent<RankExited>().back().exit.out_of_memory.has_value());
  EXPECT_TRUE(actions.out_of_memory.has_value());
}

TEST_F(ElasticSlotsTest, EveryStartIsAnotherMember) {
  OpenGate();

  Exit({-1, SIGKILL});
  slots.OnRankHello(0);

  EXPECT_EQ(actions.Sent<RankReady>().back().start, "n-2");
  EXPECT_EQ(actions.Sent<RankExited>().back().exit.start, "n-1");
}

TEST_F(ElasticSlotsTest, ADeadRankIsReportedAndStartedAgainAtOnceAndItsAttachStays) {
  OpenGate();

  Exit({-1, SIGKILL}, seconds(60), {"last words"});

  const auto exits = actions.Sent<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].epoch, (control::Epoch{1, 1}));
  EXPECT_EQ(exits[0].exit.rank, 1);
  EXPECT_EQ(exits[0].exit.signal, SIGKILL);
  EXPECT_EQ(exits[0].exit.pod, "worker-0");
  EXPECT_EQ(exits[0].exit.node, "node");
  EXPECT_THAT(exits[0].exit.last_lines, ElementsAre("last words"));
  EXPECT_THAT(actions.started, ElementsAre(0, 0));
  EXPECT_THAT(AttachExits(), IsEmpty()) << "mpirun would end the others' attaches too";
}

TEST_F(ElasticSlotsTest, OneThatDiesAgainAndAgainWaitsBeforeItsNextStart) {
  OpenGate();

  Exit({1, 0}, seconds(1));
  Exit({1, 0}, seconds(1));
  EXPECT_THAT(actions.started, ElementsAre(0, 0));
  EXPECT_THAT(actions.restart_delays, ElementsAre(milliseconds(1000)));

  slots.OnRestartDue(0);
  EXPECT_THAT(actions.started, ElementsAre(0, 0, 0));
  slots.OnRestartDue(0);
  EXPECT_THAT(actions.started, ElementsAre(0, 0, 0)) << "it runs already";
}

TEST_F(ElasticSlotsTest, TheUsersErrorIsNotTriedAgainUntilTheLauncherEndsTheEpoch) {
  OpenGate();

  Exit({2, 0});
  EXPECT_THAT(actions.started, ElementsAre(0));
  EXPECT_THAT(AttachExits(), IsEmpty()) << "the launcher decides what it means for the job";

  slots.OnStopEpoch({{1, 1}, 500});
  EXPECT_THAT(actions.started, ElementsAre(0, 0));
}

TEST_F(ElasticSlotsTest, ASuccessBeforeTheEndOfTrainingIsTheUsersError) {
  OpenGate();

  Exit({0, 0}, seconds(60), {"last words"});

  const auto exits = actions.Sent<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].exit.exit_code, 2);
  EXPECT_THAT(exits[0].exit.last_lines,
              ElementsAre("last words", HasSubstr("before training had ended: a Python script")));
  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST_F(ElasticSlotsTest, BadDataBeforeTheGateIsTheRanksEndInTheFirstWorld) {
  slots.OnRankOutput(0, true, "bad data\n");
  Exit({2, 0}, seconds(1), {"bad data"});
  ASSERT_EQ(actions.Sent<RankExited>().size(), 1U);
  EXPECT_EQ(actions.Sent<RankExited>()[0].epoch, control::Epoch{});
  EXPECT_EQ(actions.Sent<RankExited>()[0].exit.rank, -1);

  slots.OnAttach(7, TestAttach(1, 0));
  slots.OnStartEpoch(TestStart({1, 1}, 1, {""}));
  slots.OnStartEpoch(TestStart({1, 1}, 1, {""}));

  const auto exits = actions.Sent<RankExited>();
  ASSERT_EQ(exits.size(), 2U);
  EXPECT_EQ(exits[1].epoch, (control::Epoch{1, 1}));
  EXPECT_EQ(exits[1].exit.rank, 1);
  EXPECT_EQ(exits[1].exit.exit_code, 2);
  ASSERT_EQ(actions.Sent<control::SlotOutput>().size(), 1U);
  EXPECT_EQ(actions.Sent<control::SlotOutput>()[0].data, "bad data\n");
  ASSERT_EQ(AttachExits().size(), 1U);
  EXPECT_EQ(AttachExits()[0].exit.exit_code, 2);
  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST_F(ElasticSlotsTest, AnyOtherDeathBeforeTheGateIsTriedAgainAndJoinsWhenItHasLoaded) {
  Exit({1, 0}, seconds(1));
  Exit({1, 0}, seconds(1));
  slots.OnAttach(7, TestAttach(1, 0));
  slots.OnStartEpoch(TestStart({1, 1}, 1, {""}));
  EXPECT_THAT(actions.to_rank[0], IsEmpty());

  slots.OnRestartDue(0);
  slots.OnRankHello(0);

  EXPECT_EQ(FakeSlotActions::Of<control::RankEpoch>(actions.to_rank[0]).size(), 1U);
  EXPECT_THAT(AttachExits(), IsEmpty());
}

TEST_F(ElasticSlotsTest, AProgramThatCannotStartIsAnExitWithCode127) {
  FakeSlotActions broken;
  broken.start_error = "there is no program";
  ElasticSlots none(TestSlotsOptions(1, true), &broken);
  none.Preload();
  ASSERT_TRUE(none.OnWelcome(1));

  none.OnStartEpoch(TestStart({1, 1}, 1, {""}));

  const auto exits = broken.Sent<RankExited>();
  ASSERT_FALSE(exits.empty());
  EXPECT_EQ(exits.back().epoch, (control::Epoch{1, 1}));
  EXPECT_EQ(exits.back().exit.exit_code, 127);
  EXPECT_THAT(exits.back().exit.last_lines, ElementsAre("there is no program"));
}

TEST_F(ElasticSlotsTest, ARankThatTheMachineCannotStartNowIsRetriedAndNoExitIsReported) {
  OpenGate();
  actions.start_error = "no more processes";
  actions.start_error_kind = ErrorKind::kUnavailable;
  Exit({-1, SIGKILL});
  EXPECT_THAT(actions.restart_delays, ElementsAre(milliseconds(1000)));
  slots.OnStartEpoch(TestStart({1, 2}, 1, {""}));
  slots.OnRestartDue(0);
  EXPECT_THAT(actions.restart_delays, ElementsAre(milliseconds(1000), milliseconds(2000)));

  actions.start_error = "";
  slots.OnRestartDue(0);
  slots.OnRankHello(0);

  EXPECT_THAT(actions.started, ElementsAre(0, 0));
  EXPECT_EQ(actions.Sent<RankExited>().size(), 1U) << "only of the one that was killed";
  EXPECT_EQ(FakeSlotActions::Of<control::RankEpoch>(actions.to_rank[0]).back().epoch,
            (control::Epoch{1, 2}));
  EXPECT_THAT(AttachExits(), IsEmpty());
}

TEST_F(ElasticSlotsTest, TheAttachEndsWithARankThatWasReleased) {
  OpenGate();
  slots.OnRelease({{1, 1}});

  Exit({0, 0});

  ASSERT_EQ(AttachExits().size(), 1U);
  EXPECT_EQ(AttachExits()[0].exit.exit_code, 0);
  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST_F(ElasticSlotsTest, TheAttachOfAStoppedRankEndsWithoutAnErrorAndAFreshRankIsLoaded) {
  OpenGate();
  slots.OnStopEpoch({{1, 1}, 500});
  EXPECT_THAT(actions.stopped, ElementsAre(0));

  Exit({-1, SIGTERM});

  EXPECT_EQ(actions.Sent<RankExited>().back().exit.signal, SIGTERM);
  ASSERT_EQ(AttachExits().size(), 1U);
  EXPECT_EQ(AttachExits()[0].exit.exit_code, 0);
  EXPECT_THAT(actions.started, ElementsAre(0, 0));
}

TEST_F(ElasticSlotsTest, TheAttachStaysOverRestartsAndShowsWhatTheNextRankPrints) {
  OpenGate();
  Exit({-1, SIGKILL});

  slots.OnRankOutput(0, false, "loading again\n");
  slots.OnRankHello(0);
  slots.OnStartEpoch(TestStart({1, 2}, 1, {"n-2"}));
  slots.OnRankOutput(0, false, "step 2\n");

  const auto output = FakeSlotActions::Of<RankOutput>(actions.to_attach[7]);
  ASSERT_EQ(output.size(), 2U);
  EXPECT_EQ(output[0].data, "loading again\n");
  EXPECT_EQ(output[1].data, "step 2\n");
}

TEST_F(ElasticSlotsTest, OutputIsHeldUntilTheGateOpens) {
  slots.OnRankOutput(0, false, "loading\n");
  slots.OnAttach(7, TestAttach(1, 0));
  EXPECT_THAT(FakeSlotActions::Of<RankOutput>(actions.to_attach[7]), IsEmpty());

  OpenGate(8);

  EXPECT_EQ(FakeSlotActions::Of<RankOutput>(actions.to_attach[8])[0].data, "loading\n");
}

TEST_F(ElasticSlotsTest, AJoinersOutputIsSentToTheLauncherWithItsRank) {
  slots.OnRankOutput(0, false, "loading\n");
  slots.OnRankHello(0);
  EXPECT_THAT(actions.Sent<control::SlotOutput>(), IsEmpty());

  slots.OnStartEpoch(TestStart({1, 4}, 1, {"n-1"}));
  slots.OnRankOutput(0, true, "step 1\n");

  const auto output = actions.Sent<control::SlotOutput>();
  ASSERT_EQ(output.size(), 2U);
  EXPECT_EQ(output[0].data, "loading\n");
  EXPECT_EQ(output[0].rank, 1);
  EXPECT_TRUE(output[1].is_stderr);
}

TEST_F(ElasticSlotsTest, OutputIsSentToTheLauncherOnceTheAttachHasDisconnected) {
  OpenGate();
  slots.OnAttachDisconnected(7);

  slots.OnRankOutput(0, false, "step 2\n");

  ASSERT_EQ(actions.Sent<control::SlotOutput>().size(), 1U);
}

TEST_F(ElasticSlotsTest, OutputWaitsForALauncherThatIsAway) {
  OpenGate();
  slots.OnAttachDisconnected(7);
  actions.launcher_takes_output = false;
  slots.OnRankOutput(0, false, "step 2\n");
  EXPECT_THAT(actions.Sent<control::SlotOutput>(), IsEmpty());

  actions.launcher_takes_output = true;
  ASSERT_TRUE(slots.OnWelcome(2));

  ASSERT_EQ(actions.Sent<control::SlotOutput>().size(), 1U);
  EXPECT_EQ(actions.Sent<control::SlotOutput>()[0].data, "step 2\n");
}

TEST_F(ElasticSlotsTest, OutputWaitsForALauncherThatIsSlow) {
  OpenGate();
  slots.OnAttachDisconnected(7);
  actions.launcher_takes_output = false;
  slots.OnRankOutput(0, false, "step 2\n");

  actions.launcher_takes_output = true;
  slots.OnLauncherDrained();

  EXPECT_EQ(actions.Sent<control::SlotOutput>().size(), 1U);
}

TEST_F(ElasticSlotsTest, SlotsThatDoNotExistAreReportedForTheGateToJudge) {
  slots.OnAttach(7, TestAttach(1, 5));

  ASSERT_EQ(actions.Sent<control::SlotAttached>().size(), 1U);
  EXPECT_EQ(actions.Sent<control::SlotAttached>()[0].slot, 5);
}

TEST_F(ElasticSlotsTest, ADirectAttachHasNoPlaceHere) {
  slots.OnAttach(7, TestAttach(1, 0, /*direct=*/true));

  EXPECT_THAT(actions.Sent<control::SlotAttached>(), IsEmpty());
  EXPECT_EQ(AttachExits().size(), 1U);
}

TEST_F(ElasticSlotsTest, WhoLeavesTrainsOnUntilItIsTakenOutOfItsWorld) {
  OpenGate();

  EXPECT_TRUE(slots.Leave("told to go"));
  EXPECT_EQ(actions.Sent<control::AgentLeaving>()[0].reason, "told to go");
  EXPECT_THAT(actions.stopped, IsEmpty());
  EXPECT_FALSE(slots.Drained());

  slots.OnStopEpoch({{1, 1}, 500});
  EXPECT_TRUE(slots.Drained());
  Exit({-1, SIGTERM});
  EXPECT_THAT(actions.started, ElementsAre(0)) << "there is no next epoch for this worker";
}

TEST_F(ElasticSlotsTest, WhoLeavesIsAMemberOfEpochsThatFormMeanwhile) {
  OpenGate();
  ASSERT_TRUE(slots.Leave("told to go"));

  slots.OnPrepareEpoch({{1, 2}});
  slots.OnStartEpoch(TestStart({1, 2}, 1, {"n-1"}));

  EXPECT_EQ(FakeSlotActions::Of<control::RankEpoch>(actions.to_rank[0]).back().epoch,
            (control::Epoch{1, 2}));
  EXPECT_FALSE(slots.Drained());
}

TEST_F(ElasticSlotsTest, WhoIsInNoWorldLeavesAtOnce) {
  slots.OnRankHello(0);

  EXPECT_FALSE(slots.Leave("told to go"));
}

TEST_F(ElasticSlotsTest, ADeadRankOfALeaverIsNotStartedAgain) {
  OpenGate();
  ASSERT_TRUE(slots.Leave("told to go"));

  Exit({-1, SIGKILL});

  EXPECT_THAT(actions.started, ElementsAre(0));
  EXPECT_TRUE(slots.Drained());
}

TEST_F(ElasticSlotsTest, OfALeaverNoRankIsStartedAgainAfterABackOffOrAStop) {
  OpenGate();
  Exit({1, 0}, seconds(1));
  Exit({1, 0}, seconds(1));  // the restart is pending
  ASSERT_FALSE(slots.Leave("told to go"));
  slots.OnRestartDue(0);
  EXPECT_THAT(actions.started, ElementsAre(0, 0));

  FakeSlotActions failed;
  ElasticSlots other(TestSlotsOptions(1, true), &failed);
  other.Preload();
  other.OnRankHello(0);
  other.OnStartEpoch(TestStart({1, 1}, 1, {"n-1"}));
  other.OnRankExit(0, {{2, 0}, seconds(60), {}});
  ASSERT_FALSE(other.Leave("told to go"));
  other.OnStopEpoch({{1, 1}, 500});
  EXPECT_THAT(failed.started, ElementsAre(0));
}

TEST_F(ElasticSlotsTest, AReleasedRankThatHasEndedIsNotStartedAgainByAStop) {
  OpenGate();
  slots.OnRelease({{1, 1}});
  Exit({0, 0});

  slots.OnStopEpoch({{1, 1}, 500});

  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST_F(ElasticSlotsTest, TheEndEndsRanksAndAttachesAndStartsNothing) {
  OpenGate();

  slots.End(milliseconds(10));
  EXPECT_THAT(actions.stopped, ElementsAre(0));
  EXPECT_TRUE(slots.AnyRankRunning());
  Exit({143, 0});

  EXPECT_FALSE(slots.AnyRankRunning());
  EXPECT_EQ(AttachExits().size(), 1U);
  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST_F(ElasticSlotsTest, TheEndAlsoEndsTheAttachOfASlotWhoseRankHasEnded) {
  OpenGate();
  Exit({2, 0});
  EXPECT_THAT(AttachExits(), IsEmpty());

  slots.End(milliseconds(10));

  ASSERT_EQ(AttachExits().size(), 1U);
  EXPECT_EQ(AttachExits()[0].exit.exit_code, 2);
}

TEST_F(ElasticSlotsTest, WhatIsLeftAtTheEndIsPrintedHere) {
  slots.OnRankOutput(0, true, "still loading\n");

  slots.End(milliseconds(10));

  EXPECT_EQ(actions.printed, "[-1]still loading\n");
}

// After End(), the launcher may still accept output for a while, or may be gone.
TEST_F(ElasticSlotsTest, AtTheEndAMembersWordsGoToTheLauncherIfThatTakesThem) {
  for (const bool takes_output : {true, false}) {
    FakeSlotActions ends;
    ElasticSlots slot(TestSlotsOptions(1, true), &ends);
    slot.Preload();
    slot.OnRankHello(0);
    slot.OnStartEpoch(TestStart({1, 1}, 1, {"n-1"}));
    slot.End(milliseconds(10));
    ends.launcher_takes_output = takes_output;

    slot.OnRankOutput(0, true, "bye\n");

    ends.launcher_takes_output = true;
    slot.OnLauncherDrained();
    EXPECT_EQ(ends.Sent<control::SlotOutput>().size(), takes_output ? 1U : 0U);
    EXPECT_EQ(ends.printed, "[1]bye\n");
  }
}

TEST_F(ElasticSlotsTest, AnEpochOpensTheGateToTheAttachesOfItsOwnMpirunAndSlot) {
  FakeSlotActions two;
  ElasticSlots both(TestSlotsOptions(2, true), &two);
  both.Preload();
  for (const int slot : {0, 1}) both.OnRankHello(slot);
  both.OnAttach(6, TestAttach(1, 0));  // an attach of another mpirun
  both.OnAttach(7, TestAttach(2, 0));
  both.OnAttach(8, TestAttach(2, 1));
  both.OnStartEpoch(TestStart({1, 2}, 2, {"n-1", "n-2"}));
  both.OnAttach(9, TestAttach(1, 0));
  both.OnAttach(10, TestAttach(2, 0));

  std::map<AttachId, std::vector<int>> ranks;
  for (const auto& [attach, messages] : two.to_attach) {
    for (const AttachGo& go : FakeSlotActions::Of<AttachGo>(messages)) {
      ranks[attach].push_back(go.rank);
    }
  }
  const std::map<AttachId, std::vector<int>> own = {{7, {1}}, {8, {2}}, {10, {1}}};
  EXPECT_EQ(ranks, own);

  both.OnRankOutput(1, false, "hello\n");
  EXPECT_EQ(FakeSlotActions::Of<RankOutput>(two.to_attach[8]).size(), 1U) << "that of its slot";
}

TEST_F(ElasticSlotsTest, ManySlotsAreSeparate) {
  FakeSlotActions many;
  ElasticSlots three(TestSlotsOptions(3, true), &many);
  three.Preload();
  ASSERT_TRUE(three.OnWelcome(1));
  for (int slot = 0; slot < 3; ++slot) three.OnRankHello(slot);
  three.OnStartEpoch(TestStart({1, 1}, 1, {"n-1", "n-2", "n-3"}));

  three.OnRankExit(1, {{-1, SIGKILL}, seconds(60), {}});
  three.OnPrepareEpoch({{1, 2}});

  EXPECT_THAT(many.started, ElementsAre(0, 1, 2, 1));
  EXPECT_EQ(FakeSlotActions::Of<control::RankLeave>(many.to_rank[0]).size(), 1U);
  EXPECT_EQ(FakeSlotActions::Of<control::RankLeave>(many.to_rank[1]).size(), 0U);
  EXPECT_EQ(FakeSlotActions::Of<control::RankLeave>(many.to_rank[2]).size(), 1U);
}

TEST_F(ElasticSlotsTest, ARankThatHangsIsEndedIfItIsTheOneThatIsMeant) {
  OpenGate();
  slots.OnEndStalledRank({0, "n-9", "it stood still"});
  slots.OnEndStalledRank({7, "n-1", "it stood still"});
  slots.OnEndStalledRank({-1, "n-1", "it stood still"});
  EXPECT_THAT(actions.ended, IsEmpty());

  slots.OnEndStalledRank({0, "n-1", "it stood still"});

  EXPECT_THAT(actions.ended, ElementsAre(std::pair(0, std::string("it stood still"))));
  Exit({-1, SIGKILL});
  EXPECT_EQ(actions.Sent<RankExited>().back().exit.signal, SIGKILL);
  EXPECT_THAT(actions.started, ElementsAre(0, 0)) << "it was not started again";
}

TEST_F(ElasticSlotsTest, ARankThatIsToEndAnywayIsLeftToIt) {
  OpenGate();
  slots.OnStopEpoch({{1, 1}, 1000});
  slots.OnEndStalledRank({0, "n-1", "it stood still"});
  EXPECT_THAT(actions.ended, IsEmpty());
}

TEST_F(ElasticSlotsTest, ARankIsInItsAssignedWorld) {
  EXPECT_THAT(slots.InWorld(), IsEmpty());
  OpenGate();
  ASSERT_EQ(slots.InWorld().size(), 1U);
  EXPECT_EQ(slots.InWorld()[0].rank, 1);
  EXPECT_EQ(slots.InWorld()[0].epoch, (control::Epoch{1, 1}));
  Exit({-1, SIGKILL});
  EXPECT_THAT(slots.InWorld(), IsEmpty());
}

TEST_F(ElasticSlotsTest, ARankThatItsWorkersNewWorldExcludesIsInNone) {
  FakeSlotActions two;
  ElasticSlots both(TestSlotsOptions(2, true), &two);
  both.Preload();
  for (const int slot : {0, 1}) both.OnRankHello(slot);
  both.OnStartEpoch(TestStart({1, 1}, 1, {"n-1", "n-2"}));
  both.OnStartEpoch(TestStart({1, 2}, 1, {"n-1"}));

  ASSERT_THAT(both.InWorld(), SizeIs(1));
  EXPECT_EQ(both.InWorld()[0].slot, 0);
  EXPECT_EQ(both.InWorld()[0].epoch, (control::Epoch{1, 2}));
}

TEST_F(ElasticSlotsTest, ARankThatLoadsForEverIsEnded) {
  const auto aged = [](milliseconds age) { return [age](int) { return age; }; };
  slots.EndEndlessLoading(aged(milliseconds(59'999)), seconds(60));
  EXPECT_THAT(actions.ended, IsEmpty());
  slots.EndEndlessLoading(aged(milliseconds(60'000)), seconds(60));
  ASSERT_THAT(actions.ended, SizeIs(1));
  EXPECT_EQ(actions.ended[0].first, 0);
  EXPECT_THAT(actions.ended[0].second,
              AllOf(HasSubstr("it did not join the job within 60 s"),
                    HasSubstr("ringmaster.join() (Python)"), HasSubstr("mode to Restart")));

  actions.ended.clear();
  slots.OnRankHello(0);
  slots.EndEndlessLoading(aged(seconds(1000)), seconds(60));
  EXPECT_THAT(actions.ended, IsEmpty()) << "it has loaded";

  OpenGate();
  slots.OnRankDisconnected(0);
  slots.EndEndlessLoading(aged(seconds(1000)), seconds(60));
  EXPECT_THAT(actions.ended, IsEmpty()) << "it is in a world";

  Exit({2, 0});
  slots.EndEndlessLoading(aged(seconds(1000)), seconds(60));
  EXPECT_THAT(actions.ended, IsEmpty()) << "it has ended";

  slots.OnStopEpoch({{1, 1}, 500});
  slots.End(milliseconds(10));
  slots.EndEndlessLoading(aged(seconds(1000)), seconds(60));
  EXPECT_THAT(actions.ended, IsEmpty()) << "it is being ended";
}

TEST_F(ElasticSlotsTest, AProgramThatExitsCleanlyWithoutAWorldGetsAHintHowToJoin) {
  Exit({0, 0});

  EXPECT_THAT(actions.Sent<RankExited>().back().exit.last_lines,
              Contains(HasSubstr("it exited without joining the job: in mode InPlace")));
  EXPECT_THAT(actions.started, ElementsAre(0)) << "it was started again";
}

}  // namespace
}  // namespace ringmaster::agent
