// A direct job's program: one epoch, run by its attach.

#include "worker/agent/slots/direct_slots.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/slots/fake_slot_actions.h"

namespace ringmaster::agent {
namespace {

using control::AttachGo;
using control::RankExited;
using testing::ElementsAre;
using testing::IsEmpty;

class DirectSlotsTest : public testing::Test {
 protected:
  void SetUp() override {
    slots.Preload();
    ASSERT_TRUE(slots.OnWelcome(1));
    slots.OnAttach(7, TestAttach(1, 0, true));
    slots.OnStartEpoch(TestStart({1, 1}, 1, {""}));
  }

  static control::RankExit Code(int code) {
    control::RankExit exit;
    exit.exit_code = code;
    return exit;
  }

  FakeSlotActions actions;
  DirectSlots slots{TestSlotsOptions(1, false), &actions};
};

TEST_F(DirectSlotsTest, TheAttachStartsTheProgramWhenTheGateOpens) {
  EXPECT_THAT(actions.started, IsEmpty());
  ASSERT_EQ(FakeSlotActions::Of<AttachGo>(actions.to_attach[7]).size(), 1U);
  EXPECT_TRUE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, ItsExitIsPassedOnWithPodAndRank) {
  slots.OnAttachExit(7, {Code(3)});
  slots.OnAttachGone(7);

  const auto exits = actions.Told<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].exit.rank, 1);
  EXPECT_EQ(exits[0].exit.exit_code, 3);
  EXPECT_EQ(exits[0].exit.pod, "worker-0");
}

TEST_F(DirectSlotsTest, WhatItPrintsIsInTheWorkersLogAndItsLastLineIsWhole) {
  slots.OnAttachOutput(7, {.is_stderr = false, .data = "step 1\nstep"});
  slots.OnAttachOutput(7, {.is_stderr = true, .data = "a warning\n"});
  slots.OnAttachOutput(6, {.is_stderr = false, .data = "of nobody\n"});
  slots.OnAttachExit(7, {Code(0)});

  EXPECT_EQ(actions.printed, "[1]step 1\nstep[1]a warning\n[1]\n");
}

TEST_F(DirectSlotsTest, ItIsInItsWorldWhileItRuns) {
  const std::vector<RankStanding> standings = slots.InWorld();
  ASSERT_EQ(standings.size(), 1U);
  EXPECT_EQ(standings[0].rank, 1);
  EXPECT_EQ(standings[0].epoch, (control::Epoch{1, 1}));

  slots.OnAttachExit(7, {Code(0)});

  EXPECT_THAT(slots.InWorld(), IsEmpty());
}

TEST_F(DirectSlotsTest, AnExitCountsOnceAndOnlyThatOfTheAttachInItsWorld) {
  slots.OnAttach(8, TestAttach(2, 0, true));  // of another mpirun
  slots.OnAttach(9, TestAttach(1, 5, true));  // a slot that does not exist
  for (const AttachId attach : {8, 9, 10}) slots.OnAttachExit(attach, {Code(4)});
  EXPECT_THAT(actions.Told<RankExited>(), IsEmpty());
  EXPECT_TRUE(slots.AnyRankRunning());

  for (const int code : {3, 4}) slots.OnAttachExit(7, {Code(code)});

  ASSERT_EQ(actions.Told<RankExited>().size(), 1U);
  EXPECT_EQ(actions.Told<RankExited>()[0].exit.exit_code, 3);
  EXPECT_FALSE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, NoProgramRunsBeforeItsWorld) {
  DirectSlots fresh{TestSlotsOptions(1, false), &actions};
  fresh.OnAttach(8, TestAttach(0, 0, true));
  EXPECT_FALSE(fresh.AnyRankRunning());
  fresh.OnAttachExit(8, {Code(4)});
  fresh.OnStopEpoch({{1, 1}, 500});

  EXPECT_THAT(actions.Told<RankExited>(), IsEmpty());
  EXPECT_THAT(actions.stopped_attaches, IsEmpty());
}

TEST_F(DirectSlotsTest, ALackOfMemoryIsReportedAlsoWhereItTookTheAttach) {
  actions.out_of_memory = control::OutOfMemory{100, 99};

  slots.OnAttachGone(7);

  const auto exits = actions.Told<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  ASSERT_TRUE(exits[0].exit.out_of_memory.has_value());
  EXPECT_EQ(exits[0].exit.out_of_memory->limit_bytes, 100);
}

TEST_F(DirectSlotsTest, AnAttachThatVanishesTakesItsProgramAlong) {
  slots.OnAttachGone(7);

  const auto exits = actions.Told<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].exit.signal, SIGKILL);
  EXPECT_FALSE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, StopGoesToTheAttach) {
  slots.OnStopEpoch({{1, 1}, 500});

  EXPECT_THAT(actions.stopped_attaches, ElementsAre(7));
}

TEST_F(DirectSlotsTest, StopIsOfTheEpochsUpToTheOneThatItNames) {
  slots.OnAttach(8, TestAttach(2, 0, true));  // of another mpirun
  slots.OnStopEpoch({{1, 0}, 500});
  EXPECT_THAT(actions.stopped_attaches, IsEmpty());

  slots.OnStopEpoch({{1, 2}, 500});

  EXPECT_THAT(actions.stopped_attaches, ElementsAre(7));
}

TEST_F(DirectSlotsTest, TheSameEpochAgainIsNoOtherRun) {
  slots.OnStartEpoch(TestStart({1, 1}, 1, {""}));
  slots.OnStartEpoch(TestStart({1, 0}, 1, {""}));

  EXPECT_EQ(FakeSlotActions::Of<AttachGo>(actions.to_attach[7]).size(), 1U);
}

TEST_F(DirectSlotsTest, AWorldThatIsNotItsOwnStartsNothing) {
  slots.OnAttach(8, TestAttach(2, 0, true));
  slots.OnStartEpoch(TestStart({1, 2}, 2, {}));

  EXPECT_THAT(FakeSlotActions::Of<AttachGo>(actions.to_attach[8]), IsEmpty());
}

TEST_F(DirectSlotsTest, NothingStartsOnceTheAgentEnds) {
  slots.OnAttachExit(7, {Code(0)});
  slots.End(std::chrono::milliseconds(10));
  EXPECT_THAT(actions.stopped_attaches, IsEmpty()) << "it has ended";
  slots.OnAttach(8, TestAttach(2, 0, true));
  slots.OnStartEpoch(TestStart({1, 2}, 2, {""}));

  EXPECT_THAT(FakeSlotActions::Of<AttachGo>(actions.to_attach[8]), IsEmpty());
}

TEST_F(DirectSlotsTest, ALateGoodbyeOfAnOldAttachEndsNothing) {
  slots.OnAttach(8, TestAttach(2, 0, true));
  slots.OnStartEpoch(TestStart({1, 2}, 2, {""}));
  slots.OnAttachGone(7);

  EXPECT_THAT(actions.Told<RankExited>(), IsEmpty());
  EXPECT_TRUE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, AnotherEpochIsAnotherRunOfAnotherAttach) {
  slots.OnStopEpoch({{1, 1}, 500});
  slots.OnAttachExit(7, {Code(143)});
  slots.OnAttachGone(7);

  slots.OnAttach(8, TestAttach(2, 0, true));
  slots.OnStartEpoch(TestStart({1, 2}, 2, {""}));

  EXPECT_EQ(FakeSlotActions::Of<AttachGo>(actions.to_attach[8]).size(), 1U);
  EXPECT_TRUE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, AWelcomeRepeatsAttachAndExit) {
  slots.OnAttachExit(7, {Code(3)});
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(actions.Told<control::SlotAttached>().size(), 1U);
  EXPECT_EQ(actions.Told<RankExited>().size(), 1U);
}

TEST_F(DirectSlotsTest, LeavesAtOnce) {
  EXPECT_FALSE(slots.Leave("told to go")) << "its program cannot be taken out of its world";
  slots.End(std::chrono::milliseconds(10));

  EXPECT_EQ(actions.Told<control::AgentLeaving>().size(), 1U);
  EXPECT_THAT(actions.stopped_attaches, ElementsAre(7));
}

TEST_F(DirectSlotsTest, AnElasticAttachHasNoPlaceHere) {
  slots.OnAttach(8, TestAttach(1, 0, false));

  EXPECT_EQ(FakeSlotActions::Of<control::AttachExit>(actions.to_attach[8]).size(), 1U);
}

}  // namespace
}  // namespace ringmaster::agent
