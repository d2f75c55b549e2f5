#include "worker/agent/slots.h"

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

using control::AttachExit;
using control::AttachGo;
using control::AttachHello;
using control::Epoch;
using control::Message;
using control::RankEpoch;
using control::RankExited;
using control::RankOutput;
using control::SlotAttached;
using control::StartEpoch;
using control::StopEpoch;
using testing::ElementsAre;
using testing::IsEmpty;

// Remembers what was done, in the order it was done.
class FakeActions : public SlotActions {
 public:
  void SendToLauncher(const Message& message) override { to_launcher.push_back(message); }
  void SendToRank(int slot, const Message& message) override { to_rank[slot].push_back(message); }
  void SendToAttach(AttachId attach, const Message& message) override {
    to_attach[attach].push_back(message);
  }
  void StopAttach(AttachId attach, std::chrono::milliseconds) override {
    stopped_attaches.push_back(attach);
  }
  void CloseAttach(AttachId attach) override { closed_attaches.push_back(attach); }
  Result<void> StartRank(int slot) override {
    if (!start_error.empty()) return Error{ErrorKind::kNotFound, start_error};
    started.push_back(slot);
    return {};
  }
  void StopRank(int slot, std::chrono::milliseconds) override { stopped.push_back(slot); }
  void PrintLocally(int, int rank, bool, std::string_view data) override {
    printed += "[" + std::to_string(rank) + "]" + std::string(data);
  }

  template <typename Wanted>
  static std::vector<Wanted> Of(const std::vector<Message>& messages) {
    std::vector<Wanted> found;
    for (const Message& message : messages) {
      if (const auto* wanted = std::get_if<Wanted>(&message)) found.push_back(*wanted);
    }
    return found;
  }
  template <typename Wanted>
  std::vector<Wanted> Told() const {
    return Of<Wanted>(to_launcher);
  }

  std::vector<Message> to_launcher;
  std::map<int, std::vector<Message>> to_rank;
  std::map<AttachId, std::vector<Message>> to_attach;
  std::vector<AttachId> stopped_attaches;
  std::vector<AttachId> closed_attaches;
  std::vector<int> started;
  std::vector<int> stopped;
  std::string start_error;
  std::string printed;
};

SlotsOptions Options(int slots, bool managed) {
  return {.pod_uid = "uid",
          .pod = "worker-0",
          .node = "node",
          .slots = slots,
          .managed = managed,
          .program = "program"};
}

// This worker's slots come after one rank of another worker.
StartEpoch Start(Epoch epoch, std::int64_t cohort, int slots) {
  StartEpoch start{epoch, cohort, {{"other", "worker-9", "node9", "10.0.0.9", 0, 0}}};
  for (int slot = 0; slot < slots; ++slot) {
    start.members.push_back({"uid", "worker-0", "node", "10.0.0.1", slot, slot + 1});
  }
  return start;
}

AttachHello Hello(std::int64_t cohort, int slot, bool direct = false) {
  return {cohort, slot, slot + 1, 2, direct};
}

constexpr ProcessEnd kClean{0, 0};

class ManagedSlots : public testing::Test {
 protected:
  void SetUp() override {
    slots.Preload();
    ASSERT_TRUE(slots.OnWelcome(1));
  }

  void RunEpoch(Epoch epoch, std::int64_t cohort, AttachId attach) {
    slots.OnRankHello(0);
    slots.OnAttach(attach, Hello(cohort, 0));
    slots.OnStartEpoch(Start(epoch, cohort, 1));
  }

  FakeActions actions;
  Slots slots{Options(1, true), &actions};
};

TEST_F(ManagedSlots, PreloadsARankAndGivesItTheEpochWhenTheGateOpens) {
  EXPECT_THAT(actions.started, ElementsAre(0));

  RunEpoch({1, 1}, 1, 7);

  ASSERT_EQ(actions.Told<SlotAttached>().size(), 1U);
  EXPECT_EQ(actions.Told<SlotAttached>()[0].mpi_rank, 1);
  const auto epochs = FakeActions::Of<RankEpoch>(actions.to_rank[0]);
  ASSERT_EQ(epochs.size(), 1U);
  EXPECT_EQ(epochs[0].rank, 1);
  EXPECT_EQ(epochs[0].members.size(), 2U);
  EXPECT_EQ(FakeActions::Of<AttachGo>(actions.to_attach[7]).size(), 1U);
}

TEST_F(ManagedSlots, ARankThatStillLoadsGetsItsEpochOnceItSaysHello) {
  slots.OnAttach(7, Hello(1, 0));
  slots.OnStartEpoch(Start({1, 1}, 1, 1));
  EXPECT_THAT(actions.to_rank[0], IsEmpty());

  slots.OnRankHello(0);

  EXPECT_EQ(FakeActions::Of<RankEpoch>(actions.to_rank[0]).size(), 1U);
}

TEST_F(ManagedSlots, TheSameEpochAgainChangesNothing) {
  RunEpoch({1, 1}, 1, 7);

  slots.OnStartEpoch(Start({1, 1}, 1, 1));

  EXPECT_EQ(FakeActions::Of<RankEpoch>(actions.to_rank[0]).size(), 1U);
  EXPECT_THAT(actions.stopped, IsEmpty());
}

TEST_F(ManagedSlots, ALowerEpochIsRefused) {
  RunEpoch({2, 1}, 1, 7);

  slots.OnStartEpoch(Start({1, 9}, 2, 1));

  EXPECT_THAT(actions.stopped, IsEmpty());
  EXPECT_EQ(slots.highest_epoch(), (Epoch{2, 1}));
}

TEST_F(ManagedSlots, ALauncherOfALowerTermIsNotFollowed) {
  RunEpoch({2, 1}, 1, 7);

  EXPECT_FALSE(slots.OnWelcome(1));
  EXPECT_TRUE(slots.OnWelcome(2));
}

TEST_F(ManagedSlots, OutputGoesToTheAttachOfTheCohortAndIsHeldUntilThereIsOne) {
  slots.OnRankOutput(0, false, "loading\n");
  EXPECT_EQ(actions.printed, "");

  RunEpoch({1, 1}, 1, 7);
  slots.OnRankOutput(0, true, "step 1\n");

  const auto output = FakeActions::Of<RankOutput>(actions.to_attach[7]);
  ASSERT_EQ(output.size(), 2U);
  EXPECT_EQ(output[0].data, "loading\n");
  EXPECT_FALSE(output[0].is_stderr);
  EXPECT_EQ(output[1].data, "step 1\n");
  EXPECT_TRUE(output[1].is_stderr);
}

TEST_F(ManagedSlots, OutputGoesToOurOwnWhenItsAttachIsGone) {
  RunEpoch({1, 1}, 1, 7);
  slots.OnAttachGone(7);

  slots.OnRankOutput(0, false, "step 2\n");

  EXPECT_EQ(actions.printed, "[1]step 2\n");
}

TEST_F(ManagedSlots, TheEndOfARankIsReportedToLauncherAndAttach) {
  RunEpoch({1, 1}, 1, 7);

  slots.OnRankExit(0, {3, 0}, {"last words"});

  const auto exits = actions.Told<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].epoch, (Epoch{1, 1}));
  EXPECT_EQ(exits[0].exit.rank, 1);
  EXPECT_EQ(exits[0].exit.exit_code, 3);
  EXPECT_EQ(exits[0].exit.pod, "worker-0");
  EXPECT_EQ(exits[0].exit.node, "node");
  EXPECT_THAT(exits[0].exit.last_lines, ElementsAre("last words"));
  EXPECT_EQ(FakeActions::Of<AttachExit>(actions.to_attach[7])[0].exit.exit_code, 3);
  EXPECT_THAT(actions.started, ElementsAre(0)) << "nobody asked for a new one";
}

TEST_F(ManagedSlots, ARankThatDiesWhileLoadingEndsTheNextEpochOfItsSlot) {
  slots.OnRankOutput(0, true, "bad data\n");
  slots.OnRankExit(0, {2, 0}, {"bad data"});
  ASSERT_EQ(actions.Told<RankExited>().size(), 1U);
  EXPECT_EQ(actions.Told<RankExited>()[0].epoch, Epoch{});
  EXPECT_EQ(actions.Told<RankExited>()[0].exit.rank, -1);

  slots.OnAttach(7, Hello(1, 0));
  slots.OnStartEpoch(Start({1, 1}, 1, 1));
  slots.OnStartEpoch(Start({1, 1}, 1, 1));

  const auto exits = actions.Told<RankExited>();
  ASSERT_EQ(exits.size(), 2U);
  EXPECT_EQ(exits[1].epoch, (Epoch{1, 1}));
  EXPECT_EQ(exits[1].exit.exit_code, 2);
  EXPECT_EQ(FakeActions::Of<RankOutput>(actions.to_attach[7])[0].data, "bad data\n");
  EXPECT_EQ(FakeActions::Of<AttachExit>(actions.to_attach[7]).size(), 1U);
  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST_F(ManagedSlots, StopEndsTheRankAndAFreshOneServesTheNextEpoch) {
  RunEpoch({1, 1}, 1, 7);
  slots.OnStopEpoch({{1, 1}, 500});
  EXPECT_THAT(actions.stopped, ElementsAre(0));

  slots.OnRankExit(0, {-1, SIGTERM}, {});
  EXPECT_THAT(actions.started, ElementsAre(0, 0));
  slots.OnAttachGone(7);
  RunEpoch({1, 2}, 2, 8);

  EXPECT_EQ(FakeActions::Of<RankEpoch>(actions.to_rank[0]).back().epoch, (Epoch{1, 2}));
  EXPECT_EQ(actions.Told<RankExited>()[0].exit.signal, SIGTERM);
}

TEST_F(ManagedSlots, StopLeavesAFreshRankAlone) {
  slots.OnRankHello(0);

  slots.OnStopEpoch({{1, 1}, 500});

  EXPECT_THAT(actions.stopped, IsEmpty());
  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST_F(ManagedSlots, AnotherLaunchersEpochReplacesTheRankWithoutAStop) {
  RunEpoch({1, 1}, 1, 7);
  ASSERT_TRUE(slots.OnWelcome(2));
  EXPECT_THAT(actions.closed_attaches, ElementsAre(7)) << "its mpirun went with the old launcher";
  EXPECT_THAT(actions.stopped, IsEmpty()) << "ranks go on until the new launcher decides";

  slots.OnAttach(8, Hello(1, 0));
  slots.OnStartEpoch(Start({2, 1}, 1, 1));
  EXPECT_THAT(actions.stopped, ElementsAre(0));
  slots.OnRankExit(0, {-1, SIGTERM}, {});
  slots.OnRankHello(0);

  EXPECT_EQ(FakeActions::Of<RankEpoch>(actions.to_rank[0]).back().epoch, (Epoch{2, 1}));
}

TEST_F(ManagedSlots, AWelcomeRepeatsWhatStillHolds) {
  RunEpoch({1, 1}, 1, 7);
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 1}, "key", "value"}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 1}, 5, 1, {"answered"}}));
  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 1}, 6, 1, {"open"}}));
  slots.OnStoreValues({{1, 1}, 5, 1, {"yes"}});
  ASSERT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 1}, 1}));
  actions.to_launcher.clear();

  ASSERT_TRUE(slots.OnWelcome(1));

  EXPECT_EQ(actions.Told<SlotAttached>().size(), 1U);
  EXPECT_EQ(actions.Told<control::StoreSet>().size(), 1U);
  ASSERT_EQ(actions.Told<control::StoreGet>().size(), 1U);
  EXPECT_EQ(actions.Told<control::StoreGet>()[0].id, 6);
  EXPECT_EQ(actions.Told<control::RankDone>().size(), 1U);
}

TEST_F(ManagedSlots, MessagesOfAnotherEpochAreNotPassedOn) {
  RunEpoch({1, 2}, 2, 7);
  actions.to_launcher.clear();

  EXPECT_TRUE(slots.OnRankMessage(0, control::RankDone{{1, 1}, 1}));
  EXPECT_TRUE(slots.OnRankMessage(0, control::StoreSet{{1, 1}, "key", "value"}));
  EXPECT_FALSE(slots.OnRankMessage(0, control::Shutdown{}));

  EXPECT_THAT(actions.to_launcher, IsEmpty());
}

TEST_F(ManagedSlots, TheRankOfAStoreQuestionIsTheOneItWasGiven) {
  RunEpoch({1, 1}, 1, 7);

  ASSERT_TRUE(slots.OnRankMessage(0, control::StoreGet{{1, 1}, 5, 99, {"key"}}));

  EXPECT_EQ(actions.Told<control::StoreGet>()[0].rank, 1);
}

TEST_F(ManagedSlots, SlotsThatDoNotExistAreReportedForTheGateToJudge) {
  slots.OnAttach(7, Hello(1, 5));

  ASSERT_EQ(actions.Told<SlotAttached>().size(), 1U);
  EXPECT_EQ(actions.Told<SlotAttached>()[0].slot, 5);
}

TEST_F(ManagedSlots, ADirectAttachHasNoPlaceHere) {
  slots.OnAttach(7, Hello(1, 0, /*direct=*/true));

  EXPECT_THAT(actions.Told<SlotAttached>(), IsEmpty());
  EXPECT_EQ(FakeActions::Of<AttachExit>(actions.to_attach[7]).size(), 1U);
}

TEST_F(ManagedSlots, EndTellsTheLauncherAndStartsNothingAgain) {
  RunEpoch({1, 1}, 1, 7);

  slots.End(std::chrono::milliseconds(10), "told to go");
  EXPECT_TRUE(slots.AnyRankRunning());
  slots.OnRankExit(0, kClean, {});

  EXPECT_FALSE(slots.AnyRankRunning());
  EXPECT_EQ(actions.Told<control::AgentLeaving>()[0].reason, "told to go");
  EXPECT_THAT(actions.started, ElementsAre(0));
}

TEST(Slots, AProgramThatCannotStartIsAnExitWithCode127) {
  FakeActions actions;
  actions.start_error = "there is no program";
  Slots slots(Options(1, true), &actions);
  slots.Preload();
  ASSERT_TRUE(slots.OnWelcome(1));

  slots.OnStartEpoch(Start({1, 1}, 1, 1));

  const auto exits = actions.Told<RankExited>();
  ASSERT_FALSE(exits.empty());
  EXPECT_EQ(exits.back().epoch, (Epoch{1, 1}));
  EXPECT_EQ(exits.back().exit.exit_code, 127);
  EXPECT_THAT(exits.back().exit.last_lines, ElementsAre("there is no program"));
}

class DirectSlots : public testing::Test {
 protected:
  void SetUp() override {
    slots.Preload();
    ASSERT_TRUE(slots.OnWelcome(1));
    slots.OnAttach(7, Hello(1, 0, true));
    slots.OnStartEpoch(Start({1, 1}, 1, 1));
  }

  FakeActions actions;
  Slots slots{Options(1, false), &actions};
};

TEST_F(DirectSlots, TheAttachStartsTheProgramWhenTheGateOpens) {
  EXPECT_THAT(actions.started, IsEmpty());
  ASSERT_EQ(FakeActions::Of<AttachGo>(actions.to_attach[7]).size(), 1U);
  EXPECT_TRUE(slots.AnyRankRunning());
}

TEST_F(DirectSlots, ItsExitIsPassedOnWithPodAndRank) {
  control::RankExit exit;
  exit.exit_code = 3;

  slots.OnAttachExit(7, {exit});
  slots.OnAttachGone(7);

  const auto exits = actions.Told<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].exit.rank, 1);
  EXPECT_EQ(exits[0].exit.exit_code, 3);
  EXPECT_EQ(exits[0].exit.pod, "worker-0");
}

TEST_F(DirectSlots, AnAttachThatVanishesTakesItsProgramAlong) {
  slots.OnAttachGone(7);

  const auto exits = actions.Told<RankExited>();
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].exit.signal, SIGKILL);
  EXPECT_FALSE(slots.AnyRankRunning());
}

TEST_F(DirectSlots, StopGoesToTheAttach) {
  slots.OnStopEpoch({{1, 1}, 500});

  EXPECT_THAT(actions.stopped_attaches, ElementsAre(7));
}

}  // namespace
}  // namespace ringmaster::agent
