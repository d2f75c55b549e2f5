// Tests that messages from agents are accepted only if they can be true: for a slot that exists,
// from a member of the world, while that world runs. Also tests what a redialing agent receives.

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::IsEmpty;
using testing::SizeIs;

// Tests a world in which workers 0 and 1 run; worker 2 is not a member.
class AgentWords : public testing::Test {
 protected:
  void Run(bool elastic = true) {
    world = std::make_unique<World>(1, elastic);
    world->Order({0, 1}, 2, 1);
    for (const int worker : {0, 1}) world->Arrive(worker);
    world->AttachAll();
    ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
    world->Dial(2);
    world->actions.clear();
  }
  // Returns a report of how the rank in worker 1's slot ended.
  static control::RankExit End(int code, int signal = 0) {
    control::RankExit exit;
    exit.start = "first";
    exit.exit_code = code;
    exit.signal = signal;
    return exit;
  }
  control::LauncherStatus Status() const { return world->membership.Status(world->now); }

  std::unique_ptr<World> world;
};

TEST_F(AgentWords, OfSlotsThatThereAreNotAreNone) {
  Run();
  for (const int no_slot : {-1, 1}) {
    control::RankExited exited{world->membership.epoch(), End(-1, 9)};
    exited.exit.slot = no_slot;
    world->Say(1, exited);
    world->Say(1, control::RankReady{no_slot, "x"});
    world->Say(1, control::RankProtection{no_slot, "copy", "no memory"});
  }
  control::RankExited of_no_process{world->membership.epoch(), End(-1, 9)};
  of_no_process.exit.start.clear();
  world->Say(1, of_no_process);
  world->Say(1, control::RankReady{0, ""});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(Status().failures, IsEmpty());
  EXPECT_THAT(Status().unprotected, IsEmpty());
  EXPECT_EQ(Status().crashes, 0);
}

TEST_F(AgentWords, WhatIsNotKeptHasAShortName) {
  Run();
  world->Say(1, control::RankProtection{0, std::string(33, 'x'), "no memory"});
  EXPECT_THAT(Status().unprotected, IsEmpty());

  world->Say(1, control::RankProtection{0, std::string(32, 'x'), "no memory"});

  EXPECT_THAT(Status().unprotected, SizeIs(1));
}

TEST_F(AgentWords, AProcessThatHasEndedIsReadyNoMore) {
  Run();
  world->Exit(1, 0, 9);
  world->Accept({0, 1});
  world->Commit(0, 10);
  world->Say(1, control::RankReady{0, "first"});  // sent before the rank ended
  world->Pass(3s, {0, 1});
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);

  world->Reload(1, "second");

  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 1);
}

TEST_F(AgentWords, OnlyMembersUseTheRendezvousAndOnlyWhileTheWorldRuns) {
  for (const bool elastic : {true, false}) {
    Run(elastic);
    const control::Epoch epoch = world->membership.epoch();
    world->Say(2, control::StoreSet{epoch, "a", "1"});
    world->Say(0, control::StoreGet{epoch, 7, 0, {"a"}});
    EXPECT_EQ(world->Sent<control::StoreValues>(), 0);
    world->Say(2, control::StoreGet{epoch, 7, 0, {}});
    EXPECT_EQ(world->Sent<control::StoreValues>(), 0);

    world->Say(1, control::StoreSet{epoch, "a", "1"});
    EXPECT_EQ(world->Sent<control::StoreValues>(0), 1);

    world->DeclareDead({1}, {0}, 1, 1);
    ASSERT_NE(world->phase(), LauncherPhase::kRunning);
    world->Say(0, control::StoreGet{epoch, 8, 0, {"a"}});
    EXPECT_EQ(world->Sent<control::StoreValues>(0), 1);
  }
}

TEST_F(AgentWords, OnlyMembersOfTheRunningWorldMakeProgress) {
  Run();
  world->Commit(2, 5);
  EXPECT_FALSE(Status().progress);
  world->Commit(1, 6);
  ASSERT_TRUE(Status().progress);
  EXPECT_EQ(Status().progress->step, 6);

  world->Exit(1, 0, 9);
  ASSERT_EQ(world->phase(), LauncherPhase::kForming);
  world->Commit(0, 7);

  EXPECT_EQ(Status().progress->step, 6);
}

// The next world must ignore what ranks reported about the previous world.
TEST_F(AgentWords, OfAWorldThatEndsAreNotHeldAgainstTheNext) {
  Run();
  world->Order({}, 0, 0);
  ASSERT_EQ(world->phase(), LauncherPhase::kStopping);
  const control::Epoch old = world->membership.epoch();
  for (const int rank : {0, 1}) {
    world->Say(rank, control::RankBroken{old, rank, -1, "no keys"});
    world->Say(rank, control::RankAtBoundary{old, rank, 3});
    world->Say(rank, control::RankDone{old, rank});
    world->Exit(rank, 0, 15);
  }
  world->MpirunEnds(143);
  world->Order({0, 1}, 2, 1);
  for (const int worker : {0, 1}) world->Reload(worker, "second");
  world->AttachAll();
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  for (const int rank : {0, 1}) world->Say(rank, control::RankDone{old, rank});

  world->Pass(10s, {0, 1});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->Sent<control::PrepareEpoch>(), 0);
  EXPECT_EQ(world->Sent<control::Release>(), 0);
}

TEST_F(AgentWords, IgnoresElasticRanksMessagesInADirectJob) {
  Run(false);
  const control::Epoch epoch = world->membership.epoch();
  for (const int rank : {0, 1}) {
    const control::Message words[] = {
        control::RankReady{0, "first"},
        control::EpochAccepted{epoch},
        control::RankBroken{epoch, rank, -1, "no keys"},
        control::RankAtBoundary{epoch, rank, 3},
        control::RankDone{epoch, rank},
        control::RankStack{0, "first", "it hung", "x"},
        control::CheckpointWritten{epoch, rank, 3, 0, 0, ""},
        control::CheckpointDone{epoch, rank, 3},
        control::RankBegan{epoch, rank, {}},
    };
    for (const control::Message& word : words) world->Say(rank, word);
  }

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_TRUE(world->actions.empty());
  EXPECT_FALSE(Status().checkpoint);
}

TEST_F(AgentWords, ARankThatIsDoneWithoutAStepGotNoFurther) {
  Run();
  world->Exit(1, 0, 9);
  world->Accept({0, 1});
  EXPECT_EQ(Status().crashes, 1);

  world->Say(0, control::RankDone{world->membership.epoch(), 0});

  EXPECT_EQ(Status().crashes, 1);
}

TEST_F(AgentWords, WhoLeavesEndsAProgramOnlyAsAMemberAndBeforeItIsReleased) {
  struct Case {
    const char* what;
    int worker;
    bool released;
    LauncherPhase phase;
  };
  for (const Case& c :
       {Case{"a member", 1, false, LauncherPhase::kStopping},
        Case{"who is none", 2, false, LauncherPhase::kRunning},
        Case{"a member of a world that is done", 1, true, LauncherPhase::kRunning}}) {
    Run(false);
    if (c.released) {
      for (const int worker : {0, 1}) world->Exit(worker, 0);
    }

    world->Say(c.worker, control::AgentLeaving{"SIGTERM"});

    EXPECT_EQ(world->phase(), c.phase) << c.what;
  }
}

// A refused connection proves that the Pod is gone. A port is probed only if the result matters.
TEST_F(AgentWords, ThePortOfAMemberWhoseConnectionBrokeIsAskedWhereItsWorldWouldChange) {
  for (const bool elastic : {true, false}) {
    Run(elastic);
    world->Say(2, control::AgentReady{"10.0.0.3", 2202, {}, {{"openmpi", "4.1.4"}}});
    world->Close(2);
    EXPECT_THAT(world->All<Probe>(), IsEmpty()) << "it is not a member";
    world->Close(1);
    EXPECT_THAT(world->All<Probe>(), SizeIs(elastic ? 1 : 0));

    world->Take(world->membership.OnProbe(world->now, "nobody", true));
    EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  }

  World starting(1, false);
  starting.Order({0});
  starting.Arrive(0);
  starting.Close(0);
  EXPECT_THAT(starting.All<Probe>(), SizeIs(1));
}

TEST_F(AgentWords, WhatMpirunOfAnEarlierStartEndsWithIsOldNews) {
  Run(false);
  world->Take(world->membership.OnMpirunExited(world->now, world->LastStart().cohort - 1,
                                               {1, 0, "", {"ssh failed"}}));
  world->Pass(5s, {0, 1});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
}

// A tick is late if it comes more than half a second after the one before.
TEST_F(AgentWords, SilenceCountsUnlessOurOwnTickIsLate) {
  for (const bool late : {true, false}) {
    Run();
    world->Pass(100ms, {0, 1});
    world->Pass(1600ms, {0});
    world->now += late ? 501ms : 500ms;
    world->Say(0, control::Heartbeat{});
    world->Take(world->membership.OnTick(world->now));

    EXPECT_EQ(world->phase() == LauncherPhase::kRunning, late);
  }
}

TEST_F(AgentWords, TheCauseOfALossIsHowTheRankEnded) {
  struct Case {
    control::RankExit exit;
    const char* cause;
  };
  control::RankExit without_memory = End(-1, 9);
  without_memory.out_of_memory.emplace();
  const Case cases[] = {
      {End(3), "RankExited"},
      {End(0), "RankExited"},
      {End(control::kExitDeviceUnhealthy), "DeviceUnhealthy"},
      {End(-1, 1), "RankKilled"},
      {End(-1, 9), "RankKilled"},
      {without_memory, "OOMKilled"},
  };
  for (const Case& c : cases) {
    Run();
    world->Say(1, control::RankExited{world->membership.epoch(), c.exit});
    world->Accept({0, 1});
    world->Commit(0, 1);

    ASSERT_TRUE(Status().last_recovery) << c.cause;
    EXPECT_EQ(Status().last_recovery->cause, c.cause);
    EXPECT_EQ(Status().last_recovery->steps_lost, 0) << "none had been made";
  }
}

// If one rank is killed and another leaves, the status reports the one that was killed.
TEST_F(AgentWords, ALossCountsMoreThanALeaver) {
  Run();
  world->Order({0, 1, 2}, 3, 1);
  world->Ready(2);
  world->AllAtBoundary(10);
  world->Accept({0, 1, 2});
  world->Commit(0, 11);
  world->Say(2, control::AgentLeaving{"SIGTERM"});
  world->Exit(1, 0, 9);
  world->Accept({0, 1, 2});
  world->Commit(0, 12);

  ASSERT_TRUE(Status().last_recovery);
  EXPECT_EQ(Status().last_recovery->cause, "RankKilled");
}

TEST_F(AgentWords, AfterAFullRestartARankThatEndsWhileItLoadsCountsAgainstTheLimit) {
  for (const int limit : {0, 1}) {
    CoordinatorOptions options = World::Options(1, true);
    options.restart_limit = limit;
    world = std::make_unique<World>(options);
    world->Order({0, 1}, 2, 1);
    for (const int worker : {0, 1}) world->Arrive(worker);
    world->AttachAll();
    for (const int worker : {0, 1}) world->Exit(worker, 0, 9);
    world->MpirunEnds(1);
    ASSERT_EQ(world->phase(), LauncherPhase::kStarting);
    world->starts[{0, 0}] = "second";
    world->Exit(0, 3);
    world->Pass(2s, {0, 1});

    EXPECT_EQ(world->Decided(), limit == 0);
    if (limit == 0) continue;
    for (const int worker : {0, 1}) world->Reload(worker, "third");
    world->AttachAll();
    EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  }
}

struct Redial {
  const char* what;
  bool elastic;
  int worker;
  std::function<void(World&)> before;  // runs before the agent redials
  std::vector<std::string> told;       // messages in addition to the Welcome
};

class Redials : public AgentWords, public testing::WithParamInterface<Redial> {};

TEST_P(Redials, ReceiveWhatTheyMayHaveMissed) {
  const Redial& c = GetParam();
  Run(c.elastic);
  c.before(*world);
  world->actions.clear();

  control::AgentHello hello = world->MakeHello(c.worker);
  if (c.worker != 2) hello.highest_epoch = {3, 1};
  world->connections[c.worker] = 900;
  world->Take(world->membership.OnHello(world->now, 900, hello));

  std::vector<std::string> told;
  for (const SendTo& send : world->All<SendTo>()) {
    if (send.connection == 900 && !World::Is<control::Welcome>(send.message))
      told.emplace_back(control::TypeName(send.message));
  }
  EXPECT_EQ(told, c.told) << c.what;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Redials,
    testing::Values(
        Redial{"a member", true, 1, [](World&) {}, {"StartEpoch"}},
        Redial{"who is none", true, 2, [](World&) {}, {}},
        Redial{"a member at a boundary",
               true,
               1,
               [](World& w) {
                 w.Order({0, 1, 2}, 3, 1);
                 w.Ready(2);
               },
               {"StartEpoch", "SwitchEpoch"}},
        Redial{"a member of a world that is done",
               true,
               1,
               [](World& w) {
                 for (const int rank : {0, 1}) {
                   w.Say(rank, control::RankDone{w.membership.epoch(), rank});
                 }
               },
               {"StartEpoch", "Release"}},
        Redial{"a member while another one is lost",
               true,
               1,
               [](World& w) { w.Exit(0, 0, 9); },
               {"PrepareEpoch"}},
        Redial{"a joiner that is in the next world",
               true,
               2,
               [](World& w) {
                 w.Order({0, 1, 2}, 3, 1);
                 w.Ready(2);
                 w.AllAtBoundary(3);
               },
               {"PrepareEpoch"}},
        Redial{"who is not, while one forms", true, 2, [](World& w) { w.Exit(0, 0, 9); }, {}},
        Redial{"a member of a world that ends",
               true,
               1,
               [](World& w) { w.Order({}, 0, 0); },
               {"StopEpoch"}},
        Redial{"one whose world went on without it",
               true,
               1,
               [](World& w) {
                 w.Commit(0, 1);
                 w.Order({0}, 1, 1);
                 w.AllAtBoundary(2);
                 w.Accept({0});
               },
               {"StopEpoch"}},
        Redial{"a member of a program", false, 1, [](World&) {}, {"StartEpoch"}},
        Redial{"a member of a program that ends",
               false,
               1,
               [](World& w) { w.Order({0}, 1, 1); },
               {"StopEpoch"}},
        Redial{"a member of a program that was started again meanwhile",
               false,
               1,
               [](World& w) {
                 w.Exit(0, 0, 9);
                 w.Exit(1, 0, 15);
                 w.MpirunEnds(137);
                 w.Pass(1s, {0, 1});
                 w.AttachAll();
               },
               {"StopEpoch", "StartEpoch"}},
        Redial{"a member of a program that starts",
               false,
               1,
               [](World& w) {
                 w.Exit(0, 0, 9);
                 w.Exit(1, 0, 15);
                 w.MpirunEnds(137);
                 w.Pass(1s, {0, 1});
               },
               {"StopEpoch"}},
        Redial{"a member of a program that is done",
               false,
               1,
               [](World& w) {
                 for (const int worker : {0, 1}) w.Exit(worker, 0);
               },
               {"StartEpoch", "Release"}}));

}  // namespace
}  // namespace ringmaster::launcher
