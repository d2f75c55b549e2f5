// Tests how an agent handles a direct job's program, which an attach or the agent itself starts.

#include "worker/agent/slots/direct_slots.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "tests/unit/agent/slots/fake_slot_actions.h"

namespace ringmaster::agent {
namespace {

using control::AttachGo;
using control::RankExited;
using control::WorldReport;
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
  slots.OnAttachDisconnected(7);

  const auto exits = actions.Sent<RankExited>();
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
  slots.OnAttach(8, TestAttach(2, 0, true));  // an attach of another mpirun
  slots.OnAttach(9, TestAttach(1, 5, true));  // a slot that does not exist
  for (const AttachId attach : {8, 9, 10}) slots.OnAttachExit(attach, {Code(4)});
  EXPECT_THAT(actions.Sent<RankExited>(), IsEmpty());
  EXPECT_TRUE(slots.AnyRankRunning());

  for (const int code : {3, 4}) slots.OnAttachExit(7, {Code(code)});

  ASSERT_EQ(actions.Sent<RankExited>().size(), 1U);
  EXPECT_EQ(actions.Sent<RankExited>()[0].exit.exit_code, 3);
  EXPECT_FALSE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, NoProgramRunsBeforeItsWorld) {
  DirectSlots fresh{TestSlotsOptions(1, false), &actions};
  fresh.OnAttach(8, TestAttach(0, 0, true));
  EXPECT_FALSE(fresh.AnyRankRunning());
  fresh.OnAttachExit(8, {Code(4)});
  fresh.OnStopEpoch({{1, 1}, 500});

  EXPECT_THAT(actions.Sent<RankExited>(), IsEmpty());
  EXPECT_THAT(actions.stopped_attaches, IsEmpty());
}

TEST_F(DirectSlotsTest, ALackOfMemoryIsReportedAlsoWhereItTookTheAttach) {
  actions.out_of_memory = control::OutOfMemory{100, 99};

  slots.OnAttachDisconnected(7);

  const auto exits = actions.Sent<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  ASSERT_TRUE(exits[0].exit.out_of_memory.has_value());
  EXPECT_EQ(exits[0].exit.out_of_memory->limit_bytes, 100);
}

TEST_F(DirectSlotsTest, AnAttachThatVanishesTakesItsProgramAlong) {
  slots.OnAttachDisconnected(7);

  const auto exits = actions.Sent<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].exit.signal, SIGKILL);
  EXPECT_FALSE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, StopIsPassedToTheAttach) {
  slots.OnStopEpoch({{1, 1}, 500});

  EXPECT_THAT(actions.stopped_attaches, ElementsAre(7));
}

TEST_F(DirectSlotsTest, StopIsOfTheEpochsUpToTheOneThatItNames) {
  slots.OnAttach(8, TestAttach(2, 0, true));  // an attach of another mpirun
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
  slots.OnAttachDisconnected(7);

  EXPECT_THAT(actions.Sent<RankExited>(), IsEmpty());
  EXPECT_TRUE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, AnotherEpochIsAnotherRunOfAnotherAttach) {
  slots.OnStopEpoch({{1, 1}, 500});
  slots.OnAttachExit(7, {Code(143)});
  slots.OnAttachDisconnected(7);

  slots.OnAttach(8, TestAttach(2, 0, true));
  slots.OnStartEpoch(TestStart({1, 2}, 2, {""}));

  EXPECT_EQ(FakeSlotActions::Of<AttachGo>(actions.to_attach[8]).size(), 1U);
  EXPECT_TRUE(slots.AnyRankRunning());
}

TEST_F(DirectSlotsTest, AWelcomeRepeatsAttachAndExit) {
  slots.OnAttachExit(7, {Code(3)});
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(actions.Sent<control::SlotAttached>().size(), 1U);
  EXPECT_EQ(actions.Sent<RankExited>().size(), 1U);
}

// A new program waits for the end of the old one, because they would share a GPU.
TEST_F(DirectSlotsTest, AFormerLaunchersProgramIsWaitedForAndItsAttachIsNoNewOne) {
  slots.OnAttach(8, TestAttach(2, 0, true));  // another attach of the old mpirun
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(2));
  EXPECT_THAT(actions.Sent<control::SlotAttached>(), IsEmpty());
  EXPECT_THAT(actions.closed_attaches, ElementsAre(8));
  slots.OnStopEpoch({{1, 1}, 500});
  EXPECT_THAT(actions.stopped_attaches, ElementsAre(7));
  ASSERT_TRUE(slots.OnWelcome(3)) << "that one was lost, too";
  EXPECT_TRUE(slots.FormerProgramsRun());
  slots.OnAttachExit(7, {Code(0)});

  EXPECT_FALSE(slots.FormerProgramsRun());
}

TEST_F(DirectSlotsTest, AFormerAttachThatVanishesIsNotWaitedFor) {
  EXPECT_FALSE(slots.FormerProgramsRun()) << "its launcher leads";
  ASSERT_TRUE(slots.OnWelcome(2));
  EXPECT_TRUE(slots.FormerProgramsRun());

  slots.OnAttachDisconnected(7);

  EXPECT_FALSE(slots.FormerProgramsRun());
}

TEST_F(DirectSlotsTest, LeavesAtOnce) {
  EXPECT_FALSE(slots.Leave("told to go")) << "its program cannot be taken out of its world";
  slots.End(std::chrono::milliseconds(10));

  EXPECT_EQ(actions.Sent<control::AgentLeaving>().size(), 1U);
  EXPECT_THAT(actions.stopped_attaches, ElementsAre(7));
}

TEST_F(DirectSlotsTest, AnElasticAttachHasNoPlaceHere) {
  slots.OnAttach(8, TestAttach(1, 0, false));

  EXPECT_EQ(FakeSlotActions::Of<control::AttachExit>(actions.to_attach[8]).size(), 1U);
}

// A program without mpirun, which the agent starts after the launcher's StartEpoch.
class AgentsProgram : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(slots.OnWelcome(1)); }

  void Start(const control::Epoch& epoch) {
    slots.OnStartEpoch(TestStart(epoch, control::kStartedByAgents, {"", ""}));
  }
  std::vector<int> ReportedCodes() const {
    std::vector<int> codes;
    for (const RankExited& exited : actions.Sent<RankExited>()) {
      codes.push_back(exited.exit.exit_code);
    }
    return codes;
  }

  static constexpr std::chrono::milliseconds kLived{1000};
  FakeSlotActions actions;
  DirectSlots slots{TestSlotsOptions(2, false), &actions};
};

TEST_F(AgentsProgram, StartsInEachSlotAndKnowsItsPlace) {
  Start({1, 1});

  ASSERT_EQ(actions.programs.size(), 2U);
  const ProgramPlace& place = actions.programs[1];
  EXPECT_EQ(place.epoch, (control::Epoch{1, 1}));
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.world_size, 3);
  EXPECT_EQ(place.slot, 1);
  EXPECT_EQ(place.slots, 2);
  EXPECT_EQ(place.node_rank, 1);
  EXPECT_EQ(place.nodes, 2);
  EXPECT_EQ(place.master_address, "10.0.0.9");
  EXPECT_EQ(slots.InWorld().size(), 2U);
}

TEST_F(AgentsProgram, ItsEndIsReportedOnceAndRepeatedToTheNextLauncher) {
  Start({1, 1});
  slots.OnRankExit(1, {{3, 0}, kLived, {"a traceback"}});

  ASSERT_EQ(actions.Sent<RankExited>().size(), 1U);
  const control::RankExit exit = actions.Sent<RankExited>()[0].exit;
  EXPECT_EQ(exit.rank, 2);
  EXPECT_EQ(exit.exit_code, 3);
  EXPECT_THAT(exit.last_lines, ElementsAre("a traceback"));
  EXPECT_TRUE(slots.AnyRankRunning()) << "the other slot's";

  ASSERT_TRUE(slots.OnWelcome(2));
  EXPECT_THAT(ReportedCodes(), ElementsAre(3, 3));
}

TEST_F(AgentsProgram, IsStoppedWithItsWorldAndStartedInTheNextOne) {
  Start({1, 1});
  slots.OnStopEpoch({{1, 0}, 500});
  EXPECT_THAT(actions.stopped, IsEmpty());
  slots.OnStopEpoch({{1, 1}, 500});
  EXPECT_THAT(actions.stopped, ElementsAre(0, 1));
  for (const int slot : {0, 1}) slots.OnRankExit(slot, {{0, SIGTERM}, kLived, {}});
  EXPECT_EQ(actions.Sent<RankExited>().size(), 2U);
  EXPECT_FALSE(slots.AnyRankRunning());

  Start({1, 2});

  ASSERT_EQ(actions.programs.size(), 4U);
  EXPECT_EQ(actions.programs[3].epoch, (control::Epoch{1, 2}));
}

// Tests a worker that was disconnected and did not receive the StopEpoch of the first world.
TEST_F(AgentsProgram, TheNextOneWaitsForTheEndOfTheLastOne) {
  Start({1, 1});
  Start({1, 2});
  EXPECT_THAT(actions.stopped, ElementsAre(0, 1));
  EXPECT_EQ(actions.programs.size(), 2U);

  slots.OnRankExit(0, {{0, SIGKILL}, kLived, {}});

  EXPECT_EQ(actions.programs.size(), 3U);
  EXPECT_THAT(ReportedCodes(), IsEmpty()) << "of a world that is over";

  slots.OnStopEpoch({{1, 2}, 500});
  EXPECT_EQ(actions.Sent<RankExited>().size(), 1U) << "slot 1 never began in this one";
  slots.OnRankExit(1, {{0, SIGKILL}, kLived, {}});
  EXPECT_EQ(actions.programs.size(), 3U);
  EXPECT_EQ(actions.Sent<RankExited>().size(), 1U);
}

TEST_F(AgentsProgram, AFormerLaunchersIsWaitedFor) {
  Start({1, 1});
  EXPECT_FALSE(slots.FormerProgramsRun());
  ASSERT_TRUE(slots.OnWelcome(2));
  EXPECT_TRUE(slots.FormerProgramsRun());
  slots.OnStopEpoch({{1, 1}, 500});
  for (const int slot : {0, 1}) {
    EXPECT_TRUE(slots.FormerProgramsRun());
    slots.OnRankExit(slot, {{0, SIGTERM}, kLived, {}});
  }

  EXPECT_FALSE(slots.FormerProgramsRun());
}

// Tests a launcher that is lost after the end of the program, before it has reported the success.
class AgentsProgramThatCompletes : public AgentsProgram {
 protected:
  void SetUp() override {
    AgentsProgram::SetUp();
    Start({1, 1});
    slots.OnRankExit(0, {{0, 0}, kLived, {}});
  }
};

TEST_F(AgentsProgramThatCompletes, IsReportedToTheNextLauncher) {
  ASSERT_TRUE(slots.OnWelcome(2));
  EXPECT_THAT(actions.Sent<WorldReport>(), IsEmpty()) << "slot 1 still runs";
  slots.OnRankExit(1, {{0, 0}, kLived, {}});
  ASSERT_TRUE(slots.OnWelcome(2));
  slots.OnStopEpoch({{1, 1}, 500});
  ASSERT_TRUE(slots.OnWelcome(2)) << "the connection broke";

  ASSERT_EQ(actions.Sent<WorldReport>().size(), 2U);
  EXPECT_EQ(actions.Sent<WorldReport>()[1].epoch, (control::Epoch{1, 1}));
  EXPECT_THAT(actions.Sent<WorldReport>()[1].members, IsEmpty()) << "rank 0's agent sends them";
  Start({2, 2});
  ASSERT_TRUE(slots.OnWelcome(3));
  EXPECT_EQ(actions.Sent<WorldReport>().size(), 2U) << "it runs again";
}

TEST_F(AgentsProgramThatCompletes, HasTheMembersFromTheAgentOfRankZero) {
  control::StartEpoch start = TestStart({1, 2}, control::kStartedByAgents, {""});
  std::swap(start.members[0], start.members[1]);
  for (int rank : {0, 1}) start.members[static_cast<std::size_t>(rank)].rank = rank;
  slots.OnRankExit(1, {{0, 0}, kLived, {}});
  slots.OnStartEpoch(start);
  slots.OnRankExit(0, {{0, 0}, kLived, {}});
  ASSERT_TRUE(slots.OnWelcome(1));
  EXPECT_THAT(actions.Sent<WorldReport>(), IsEmpty()) << "the launcher knows";

  ASSERT_TRUE(slots.OnWelcome(2));

  ASSERT_EQ(actions.Sent<WorldReport>().size(), 1U);
  EXPECT_EQ(actions.Sent<WorldReport>()[0].epoch, (control::Epoch{1, 2}));
  EXPECT_EQ(actions.Sent<WorldReport>()[0].members.size(), 2U);
}

TEST_F(AgentsProgramThatCompletes, HasNotIfItWasStoppedFailedOrLeaves) {
  DirectSlots failed = slots;
  failed.OnRankExit(1, {{3, 0}, kLived, {}});
  DirectSlots leaves = slots;
  EXPECT_FALSE(leaves.Leave("told to go"));
  DirectSlots stopped = slots;
  stopped.OnStopEpoch({{1, 1}, 500});

  for (DirectSlots* const each : {&failed, &leaves, &stopped}) {
    each->OnRankExit(1, {{0, 0}, kLived, {}});
    ASSERT_TRUE(each->OnWelcome(2));
  }

  EXPECT_THAT(actions.Sent<WorldReport>(), IsEmpty());
}

// If mpirun is lost with the launcher, its daemons end the programs with SIGTERM.
TEST_F(DirectSlotsTest, AProgramUnderMpirunIsNotKnownToHaveCompleted) {
  slots.OnAttachExit(7, {Code(0)});
  ASSERT_TRUE(slots.OnWelcome(2));

  EXPECT_THAT(actions.Sent<WorldReport>(), IsEmpty());
}

TEST_F(AgentsProgram, OneThatCannotBeStartedIsTheUsersAndAMachineThatCannotNowIsNot) {
  actions.start_error = "no such file";
  Start({1, 1});
  EXPECT_THAT(ReportedCodes(), ElementsAre(127, 127));
  EXPECT_FALSE(slots.AnyRankRunning());

  actions.start_error_kind = ErrorKind::kUnavailable;
  Start({1, 2});

  EXPECT_THAT(ReportedCodes(), ElementsAre(127, 127, 80, 80));
  EXPECT_THAT(actions.Sent<RankExited>().back().exit.last_lines, ElementsAre("no such file"));
  EXPECT_EQ(actions.Sent<RankExited>().back().exit.rank, -1);

  actions.start_error.clear();
  Start({1, 3});
  slots.OnRankExit(1, {{control::kExitNotStarted, 0}, kLived, {}});

  EXPECT_EQ(actions.Sent<RankExited>().back().exit.exit_code, control::kExitNotStarted);
  EXPECT_EQ(actions.Sent<RankExited>().back().exit.rank, 2) << "the program's own code";
}

TEST_F(AgentsProgram, TheLaunchersLogHasWhatRankZeroPrintsAndTheWorkersAll) {
  control::StartEpoch start = TestStart({1, 1}, control::kStartedByAgents, {"", ""});
  start.members.erase(start.members.begin());
  for (control::Member& member : start.members) --member.rank;
  slots.OnStartEpoch(start);
  actions.launcher_takes_output = false;

  slots.OnRankOutput(0, false, "step 1\nst");
  slots.OnRankOutput(1, false, "step 1\n");
  EXPECT_THAT(actions.Sent<control::SlotOutput>(), IsEmpty());
  actions.launcher_takes_output = true;
  slots.OnLauncherDrained();
  slots.OnRankExit(0, {{0, 0}, kLived, {}});

  EXPECT_EQ(actions.printed, "[0]step 1\nst[1]step 1\n[0]\n");
  std::string printed;
  for (const auto& output : actions.Sent<control::SlotOutput>()) {
    EXPECT_EQ(output.rank, 0);
    printed += output.data;
  }
  EXPECT_EQ(printed, "step 1\nst\n");
}

TEST_F(AgentsProgram, EndsWithTheAgentAndNothingStartsAfterThat) {
  Start({1, 1});
  Start({1, 2});
  actions.stopped.clear();
  slots.End(std::chrono::milliseconds(10));
  EXPECT_THAT(actions.stopped, ElementsAre(0, 1));
  for (const int slot : {0, 1}) slots.OnRankExit(slot, {{0, SIGTERM}, kLived, {}});
  EXPECT_FALSE(slots.AnyRankRunning());
  EXPECT_THAT(ReportedCodes(), IsEmpty()) << "none began in the world of 1.2";
  Start({1, 3});

  EXPECT_EQ(actions.programs.size(), 2U);
}

}  // namespace
}  // namespace ringmaster::agent
