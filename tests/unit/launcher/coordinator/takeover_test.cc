// Tests how a new launcher, with a higher term, takes over the world of the previous launcher.

#include <memory>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::ElementsAre;

// The launcher under test has term 3; the launcher of term 2 formed the world.
class Takeover : public testing::Test {
 public:
  static constexpr control::Epoch kOld{2, 7};

  static std::vector<control::Member> Members(int workers) {
    std::vector<control::Member> members;
    for (int i = 0; i < workers; ++i) {
      members.push_back({World::Uid(i), "digits-worker-" + std::to_string(i),
                         "node-" + std::to_string(i), "10.0.0." + std::to_string(i + 1), 0, "first",
                         i});
    }
    return members;
  }

  // Makes the agent connect and report its world. `highest`: a higher epoch that was accepted.
  void Return(int worker, int size, const control::Epoch& epoch = kOld, bool runs = true,
              std::optional<control::Epoch> highest = {}) {
    control::AgentHello hello = world->MakeHello(worker);
    hello.highest_epoch = highest.value_or(epoch);
    world->connections[worker] = World::Connection(worker);
    world->Take(world->membership.OnHello(world->now, World::Connection(worker), hello));
    world->Ready(worker);
    control::WorldReport report{epoch, Members(size), {}, released};
    if (runs) report.running = {"first"};
    world->Say(worker, report);
    world->Say(worker, control::Heartbeat{});
  }

  // Makes the agent report the position of its rank, as it does with every heartbeat.
  void Stand(int worker, int64_t step) {
    control::RankPosition position{.rank = worker, .entered = step > 0};
    position.step = step;
    world->Say(worker, control::RankPositions{kOld, {position}});
  }

  // Connects an agent whose rank has ended (code 0: the rank was released). The agent sends its
  // messages in the order in which a real agent repeats them.
  void ReturnEnded(int worker, int size, int code = 0) {
    control::AgentHello hello = world->MakeHello(worker);
    hello.highest_epoch = kOld;
    world->connections[worker] = World::Connection(worker);
    world->Take(world->membership.OnHello(world->now, World::Connection(worker), hello));
    world->Say(worker, control::AgentReady{"10.0.0.9", 2200, {}, {{"openmpi", "4.1.4"}}});
    world->Say(worker, control::WorldReport{kOld, Members(size), {}, released});
    if (code == 0) world->Say(worker, control::RankDone{kOld, worker});
    control::RankExited exited;
    exited.epoch = kOld;
    exited.exit.start = "first";
    exited.exit.exit_code = code;
    world->Say(worker, exited);
    world->Say(worker, control::Heartbeat{});
  }

  // Returns the number of messages and starts of mpirun that would interrupt a rank.
  int Disturbances() const {
    return world->Sent<control::PrepareEpoch>() + world->Sent<control::StartEpoch>() +
           world->Sent<control::StopEpoch>() + world->Sent<control::SwitchEpoch>() +
           static_cast<int>(world->All<StartMpirun>().size());
  }

  std::unique_ptr<World> world = std::make_unique<World>();
  bool released = false;  // whether agents report that the ranks were released
};

TEST_F(Takeover, ContinuesUndisturbedIfAllMembersReport) {
  world->Order({0, 1, 2}, 3, 1);
  Return(1, 3);
  EXPECT_EQ(world->phase(), LauncherPhase::kAdopting);
  Return(0, 3);
  world->Pass(1s, {0, 1});
  EXPECT_EQ(world->phase(), LauncherPhase::kAdopting);
  Return(2, 3);

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->membership.epoch(), kOld);
  world->Commit(0, 55);
  world->Pass(10s, {0, 1, 2});
  EXPECT_EQ(Disturbances(), 0);
  EXPECT_EQ(world->membership.Status(world->now).progress->step, 55);
  EXPECT_EQ(world->membership.Status(world->now).world_size, 3);
}

// The ranks report the checkpoint again. Until the next one, the launcher knows only this report.
TEST_F(Takeover, TheCheckpointThatTheLauncherBeforeGrantedIsKnownAgain) {
  world->Order({0, 1, 2}, 3, 1);
  Return(1, 3);
  Return(0, 3);
  world->Say(0, control::CheckpointDone{{2, 6}, 1, 500, 4096});  // checkpoint of the previous world
  Return(2, 3);
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);

  const control::LauncherStatus status = world->membership.Status(world->now);
  ASSERT_TRUE(status.checkpoint.has_value());
  EXPECT_EQ(status.checkpoint->step, 500);
  EXPECT_EQ(status.checkpoint->bytes, 4096);

  world->Say(0, control::CheckpointDone{{3, 8}, 0, 900});  // of this term, but not granted
  world->Say(0, control::CheckpointDone{{2, 6}, 1, 450});  // an older one
  EXPECT_EQ(world->membership.Status(world->now).checkpoint->step, 500);
}

TEST_F(Takeover, IgnoresCheckpointsThatNonMembersReport) {
  world->Order({0, 1}, 2, 1);
  for (const int worker : {0, 1}) Return(worker, 2);
  world->Order({0, 1, 2}, 3, 1);
  world->Arrive(2);

  world->Say(2, control::CheckpointDone{kOld, 0, 500});

  EXPECT_FALSE(world->membership.Status(world->now).checkpoint.has_value());
}

TEST_F(Takeover, WaitsForTheOrderFirst) {
  Return(0, 1);
  EXPECT_EQ(world->phase(), LauncherPhase::kWaitingForOrder);

  world->Order({0}, 1, 1);

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(Disturbances(), 0);
}

TEST_F(Takeover, ContinuesWithoutMembersThatDoNotReportSoonAfterMostHave) {
  world->Order({0, 1, 2}, 3, 1);
  for (const int worker : {0, 1}) {
    Return(worker, 3);
    Stand(worker, 500);
  }
  world->Pass(1900ms, {0, 1});
  EXPECT_EQ(world->phase(), LauncherPhase::kAdopting);
  world->Pass(100ms, {0, 1});
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  EXPECT_EQ(world->Prepared(), (control::Epoch{3, 8}));
  world->Accept({0, 1});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  world->Commit(0, 20);
  EXPECT_EQ(world->membership.Status(world->now).last_recovery->pod, "digits-worker-2");
}

// Tests a world that had just grown: no worker that has connected has the training state.
TEST_F(Takeover, JoinersDoNotBeginFromNothingWhileTheOldMembersAreOnlySilent) {
  for (const bool heard_again : {true, false}) {
    world = std::make_unique<World>();
    world->Order({0, 1, 2, 3, 4}, 5, 1);
    for (const int joiner : {2, 3, 4}) {
      Return(joiner, 5);
      Stand(joiner, 0);
    }
    world->Pass(2100ms, {2, 3, 4});
    EXPECT_EQ(world->phase(), LauncherPhase::kPaused);
    EXPECT_EQ(world->membership.Status(world->now).pause_reason, control::kPauseNoQuorum);
    EXPECT_EQ(world->Sent<control::StartEpoch>(), 0);

    if (heard_again) {
      Return(1, 5);
      Stand(1, 500);
    } else {
      world->DeclareDead({0, 1}, {2, 3, 4}, 3, 1);
    }

    EXPECT_EQ(world->phase(), LauncherPhase::kForming) << heard_again;
    world->Accept(heard_again ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{2, 3, 4});
    EXPECT_EQ(world->Members().front(), heard_again ? 1 : 2) << "rank 0 holds the state";
  }
}

TEST_F(Takeover, ContinuesWithoutSilentMembersIfAnotherHasTheState) {
  world->Order({0, 1, 2}, 3, 1);
  for (const int worker : {1, 2}) {
    Return(worker, 3);
    Stand(worker, worker == 1 ? 1 : 0);
  }
  world->Pass(2100ms, {1, 2});

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
}

TEST_F(Takeover, WaitsLongerWhileOnlyFewHaveCome) {
  world->Order({0, 1, 2}, 3, 1);
  Return(0, 3);
  world->Pass(4900ms, {0});
  EXPECT_EQ(world->phase(), LauncherPhase::kAdopting);
  world->Pass(100ms, {0});
  EXPECT_EQ(world->phase(), LauncherPhase::kPaused);
  EXPECT_EQ(world->membership.Status(world->now).pause_reason, control::kPauseNoQuorum);
}

TEST_F(Takeover, NamesTheFirstFiveOfWhoMayTrainAlready) {
  const std::vector<int> everyone{0, 1, 2, 3, 4, 5, 6, 7};
  for (const bool starts : {true, false}) {
    world = std::make_unique<World>();
    world->Order(everyone, 8, 2);
    for (const int worker : {0, 1}) {
      if (starts) {
        world->Arrive(worker);
      } else {
        Return(worker, 8);
      }
    }
    world->Pass(40s, {0, 1});
    const std::string message = world->membership.Status(world->now).message;
    EXPECT_THAT(message,
                testing::HasSubstr("waiting for digits-worker-2 (node-2), digits-worker-3"));
    EXPECT_THAT(message, testing::HasSubstr(", digits-worker-6 (node-6) and 1 more to "));

    world->DeclareDead({2}, everyone, 8, 2);

    EXPECT_THAT(world->membership.Status(world->now).message,
                testing::HasSubstr(", digits-worker-7 (node-7) to "));
  }
}

TEST_F(Takeover, FormsAtOnceWhenTheMissingAreKnown) {
  struct Case {
    const char* what;
    void (*happen)(Takeover&);
  };
  const Case cases[] = {
      {"its agent reports that its rank ended", [](Takeover& t) { t.Return(2, 3, kOld, false); }},
      {"its agent has nothing to report",
       [](Takeover& t) {
         t.world->Dial(2);
         t.world->Ready(2);
         t.world->Say(2, control::Heartbeat{});
       }},
      {"the operator knows",
       [](Takeover& t) {
         t.world->DeclareDead({2}, {0, 1}, 3, 1);
       }},
  };
  for (const Case& c : cases) {
    world = std::make_unique<World>();
    world->Order({0, 1, 2}, 3, 1);
    Return(0, 3);
    Return(1, 3);
    ASSERT_EQ(world->phase(), LauncherPhase::kAdopting) << c.what;

    c.happen(*this);

    EXPECT_EQ(world->phase(), LauncherPhase::kForming) << c.what;
  }
}

// Worker 2 has no world to report at first, but may have one when its agent connects again.
TEST_F(Takeover, WaitsForAMemberWhoseAgentDisconnectedAgain) {
  world->Order({0, 1, 2}, 3, 1);
  world->Dial(2);
  world->Ready(2);
  world->Say(2, control::Heartbeat{});
  world->Close(2);
  Return(0, 3);
  Return(1, 3);
  EXPECT_EQ(world->phase(), LauncherPhase::kAdopting);

  Return(2, 3);

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(Disturbances(), 0);
}

TEST_F(Takeover, TheHighestWorldReportedWins) {
  world->Order({0, 1, 2}, 3, 1);
  Return(2, 3, {2, 5});
  Return(0, 2);
  EXPECT_EQ(world->phase(), LauncherPhase::kAdopting);
  Return(1, 2, {2, 5}, true, kOld);  // worker 1 accepted {2, 7}, but did not start it
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  EXPECT_EQ(world->Prepared(), (control::Epoch{3, 8}));

  world->Accept({0, 1, 2});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 2));
}

TEST_F(Takeover, FormsANewWorldForRanksThatWereAskedToLeave) {
  world->Order({0, 1}, 2, 1);
  Return(0, 2, kOld, true, control::Epoch{2, 8});
  Return(1, 2);

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  EXPECT_EQ(world->Prepared(), (control::Epoch{3, 9}));
}

TEST_F(Takeover, FormsANewWorldForRanksAtABoundary) {
  world->Order({0, 1}, 2, 1);
  Return(0, 2);
  world->Say(0, control::RankAtBoundary{kOld, 0, 30});
  Return(1, 2);
  world->Say(1, control::RankAtBoundary{kOld, 1, 30});

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
}

TEST_F(Takeover, RanksThatAreDoneAreReleased) {
  world->Order({0, 1}, 2, 1);
  Return(0, 2);
  world->Say(0, control::RankDone{kOld, 0});
  Return(1, 2);
  world->Say(1, control::RankDone{kOld, 1});

  EXPECT_EQ(world->Sent<control::Release>(), 2);
}

TEST_F(Takeover, AJobThatHadEndedWellIsASuccess) {
  for (const int size : {1, 2, 3}) {
    world = std::make_unique<World>();
    std::vector<int> workers;
    for (int i = 0; i < size; ++i) workers.push_back(i);
    world->Order(workers, size, 1);
    for (const int worker : workers) ReturnEnded(worker, size);

    ASSERT_TRUE(world->Decided()) << size;
    EXPECT_TRUE(world->Verdict()->verdict.succeeded) << size;
    EXPECT_EQ(world->Verdict()->verdict.clean_exits, size);
    EXPECT_TRUE(world->membership.Status(world->now).failures.empty()) << size;
    EXPECT_EQ(Disturbances(), 0) << size;
  }
}

TEST_F(Takeover, ARankThatHasFailedFailsTheJobThatIsTakenOver) {
  world->Order({0, 1}, 2, 1);
  Return(0, 2);
  ReturnEnded(1, 2, control::kExitUserError);
  world->Pass(5s, {0, 1});

  ASSERT_TRUE(world->Decided());
  EXPECT_FALSE(world->Verdict()->verdict.succeeded);
  EXPECT_EQ(world->membership.Status(world->now).failures.front().rank, 1);
}

TEST_F(Takeover, OneOfTheReleasedRanksStillRuns) {
  for (const bool ended_first : {true, false}) {
    world = std::make_unique<World>();
    world->Order({0, 1}, 2, 1);
    if (ended_first) ReturnEnded(0, 2);
    Return(1, 2);
    if (!ended_first) ReturnEnded(0, 2);
    world->Say(1, control::RankDone{kOld, 1});
    EXPECT_EQ(world->Sent<control::Release>(1), 1);

    world->Exit(1, 0);

    ASSERT_TRUE(world->Decided());
    EXPECT_TRUE(world->Verdict()->verdict.succeeded);
    EXPECT_TRUE(world->membership.Status(world->now).failures.empty());
    EXPECT_EQ(Disturbances(), 0);
  }
}

TEST_F(Takeover, AReleasedJobEndsWellAlthoughAWorkerWasLostAfterItsRelease) {
  released = true;
  for (const bool ended : {true, false}) {
    world = std::make_unique<World>();
    world->Order({0, 1}, 2, 1);
    if (ended) ReturnEnded(0, 2);
    if (!ended) Return(0, 2);
    world->Pass(6s, {0});
    EXPECT_EQ(world->phase(), LauncherPhase::kRunning) << ended;
    EXPECT_EQ(world->Sent<control::Release>(0), 1) << "the agent may have missed it";
    if (!ended) world->Exit(0, 0);
    world->Pass(world->options.release_within, {0});

    ASSERT_TRUE(world->Decided()) << ended;
    EXPECT_TRUE(world->Verdict()->verdict.succeeded) << ended;
    EXPECT_THAT(world->Verdict()->verdict.message,
                testing::HasSubstr("digits-worker-1 (node-1) was lost"));
    EXPECT_EQ(Disturbances(), 0) << ended;
  }
}

TEST_F(Takeover, AReleasedJobDoesNotWaitForRanksThatEndedWithTheirAgent) {
  released = true;
  world->Order({0, 1}, 2, 1);
  Return(0, 2);
  world->Arrive(1);  // the agent was restarted, so it has no world to report
  world->Say(1, control::Heartbeat{});
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);

  world->Exit(0, 0);

  ASSERT_TRUE(world->Decided());
  EXPECT_TRUE(world->Verdict()->verdict.succeeded);
  EXPECT_EQ(Disturbances(), 0);
}

TEST_F(Takeover, ARankThatFailedAfterItsReleaseFailsTheJob) {
  released = true;
  world->Order({0, 1}, 2, 1);
  Return(0, 2);
  ReturnEnded(1, 2, 1);
  world->Pass(5s, {0, 1});

  ASSERT_TRUE(world->Decided());
  EXPECT_FALSE(world->Verdict()->verdict.succeeded);
  EXPECT_THAT(world->Verdict()->verdict.message, testing::HasSubstr("training ended; then"));
  EXPECT_EQ(Disturbances(), 0);
}

TEST_F(Takeover, RepeatedMessagesDoNotDisplaceThoseOfOthers) {
  world->Order({0, 1, 2}, 3, 1);
  Return(0, 3);
  for (int i = 0; i < 5000; ++i) world->Say(0, control::RankDone{kOld, 0});
  Return(1, 3);
  world->Say(1, control::RankDone{kOld, 1});
  Return(2, 3);
  world->Say(2, control::RankDone{kOld, 2});

  EXPECT_EQ(world->Sent<control::Release>(), 3);
}

TEST_F(Takeover, NoPartOfAJobStartsBesideAWorldThatMayLive) {
  for (const int64_t term : {2, 3}) {
    CoordinatorOptions options = World::Options(1, true);
    options.term = term;
    world = std::make_unique<World>(options);
    world->Order({0, 1, 2}, 3, 2);
    world->Arrive(0);
    world->Arrive(1);
    world->Pass(40s, {0, 1});
    EXPECT_TRUE(world->All<StartMpirun>().empty());
    const control::LauncherStatus status = world->membership.Status(world->now);
    EXPECT_EQ(status.phase, LauncherPhase::kPaused);
    EXPECT_EQ(status.pause_reason, "NoQuorum");
    EXPECT_THAT(status.message, testing::HasSubstr("digits-worker-2 (node-2)"));

    world->DeclareDead({2}, {0, 1, 2}, 3, 2);

    EXPECT_EQ(world->LastStart().world_size, 2);
    EXPECT_EQ(world->membership.Status(world->now).pause_reason, "");
  }
}

// Tests the first launcher: no earlier launcher can have formed a world.
TEST_F(Takeover, TheFirstLauncherWaitsOnlyForItsMinimum) {
  CoordinatorOptions options = World::Options(1, true);
  options.term = 1;
  world = std::make_unique<World>(options);
  world->Order({0, 1, 3}, 3, 2);
  world->Order({0, 1, 2}, 3, 2);
  world->Arrive(0);
  world->Arrive(1);
  world->Pass(30s - 100ms, {0, 1});
  EXPECT_TRUE(world->All<StartMpirun>().empty());

  world->Pass(100ms, {0, 1});

  EXPECT_EQ(world->LastStart().world_size, 2);
}

// Tests a Pod that was in an earlier order, but is not in the current one.
TEST_F(Takeover, AnUnwantedPodIsWaitedForUntilItSpeaksOrTimeIsUp) {
  struct Case {
    const char* what;
    void (*happen)(Takeover&);
    bool starts_at_once;
  };
  const Case cases[] = {
      {"nothing", [](Takeover&) {}, false},
      {"it was in no world", [](Takeover& t) { t.world->Dial(0); }, true},
      {"it has accepted one, and may tell of it",
       [](Takeover& t) {
         control::AgentHello hello = t.world->MakeHello(0);
         hello.highest_epoch = {1, 1};
         t.world->Take(t.world->membership.OnHello(t.world->now, 7, hello));
       },
       false},
      {"it is dead", [](Takeover& t) { t.world->DeclareDead({0}, {1}, 1, 1); }, true},
  };
  for (const int64_t term : {2, 3}) {
    for (const Case& c : cases) {
      CoordinatorOptions options = World::Options(1, true);
      options.term = term;
      world = std::make_unique<World>(options);
      world->Order({0, 1}, 2, 1);
      world->Order({1}, 1, 1);
      world->Arrive(1);
      EXPECT_TRUE(world->All<StartMpirun>().empty()) << c.what;

      c.happen(*this);

      world->Say(1, control::Heartbeat{});
      EXPECT_EQ(!world->All<StartMpirun>().empty(), c.starts_at_once) << c.what;
      world->Pass(5s - 100ms, {1});
      EXPECT_EQ(!world->All<StartMpirun>().empty(), c.starts_at_once) << c.what;
      world->Pass(100ms, {1});
      EXPECT_FALSE(world->All<StartMpirun>().empty()) << c.what;
    }
  }
}

// A Pod that is not in the order may be in a world that the ordered Pods do not know.
TEST_F(Takeover, APodThatWasNeverOrderedIsWaitedForWhileItMayReportAWorld) {
  struct Case {
    const char* what;
    void (*happen)(World&);
    bool starts;
  };
  const Case cases[] = {
      {"nothing", [](World&) {}, false},
      {"it has nothing to report", [](World& w) { w.Say(0, control::Heartbeat{}); }, true},
      {"its connection is gone", [](World& w) { w.Close(0); }, false},
      {"it is dead", [](World& w) { w.DeclareDead({0}, {1}, 1, 1); }, true},
  };
  for (const Case& c : cases) {
    world = std::make_unique<World>();
    world->Order({1}, 1, 1);
    control::AgentHello hello = world->MakeHello(0);
    hello.highest_epoch = kOld;
    world->connections[0] = World::Connection(0);
    world->Take(world->membership.OnHello(world->now, World::Connection(0), hello));
    world->Arrive(1);
    world->Say(1, control::Heartbeat{});
    EXPECT_TRUE(world->All<StartMpirun>().empty()) << c.what;

    c.happen(*world);

    EXPECT_EQ(!world->All<StartMpirun>().empty(), c.starts) << c.what;
  }
}

TEST_F(Takeover, AReportOfALauncherToComeOrOfNoWorldIsNone) {
  for (const control::Epoch epoch : {control::Epoch{4, 1}, control::Epoch{2, 0}}) {
    world = std::make_unique<World>();
    world->Order({0, 1}, 2, 2);
    Return(0, 1, epoch, true, control::Epoch{});

    EXPECT_EQ(world->phase(), LauncherPhase::kWaitingForAgents);
  }
}

// The agent sends its report and other messages at once; the launcher must handle all of them.
TEST_F(Takeover, MessagesBesideAReportThatEndsAStartAreHandled) {
  world->Order({0, 1}, 2, 2);
  world->Arrive(0);
  world->Arrive(1);
  ASSERT_EQ(world->phase(), LauncherPhase::kStarting);
  Coordinator& membership = world->membership;
  control::WorldReport report{{2, 1}, Members(2), {"first"}};
  report.members.erase(report.members.begin());
  report.members[0].rank = 0;
  membership.OnMessage(world->now, World::Connection(1), report);
  membership.OnMessage(world->now, World::Connection(1), control::RankDone{{2, 1}, 0});
  membership.OnMessage(world->now, World::Connection(1), control::Heartbeat{});
  world->Take(membership.Settle(world->now));
  world->MpirunEnds(143);

  EXPECT_EQ(world->membership.epoch(), (control::Epoch{2, 1}));
  EXPECT_EQ(world->Sent<control::Release>(1), 1);
}

TEST_F(Takeover, NoPartStartsInTheFirstTermEitherOnceAWorldExisted) {
  CoordinatorOptions options = World::Options(1, true);
  options.term = 1;
  world = std::make_unique<World>(options);
  world->Order({0, 1}, 2, 1);
  control::AgentHello hello = world->MakeHello(0);
  hello.highest_epoch = {1, 1};
  world->connections[0] = World::Connection(0);
  world->Take(world->membership.OnHello(world->now, World::Connection(0), hello));
  world->Ready(0);
  world->Pass(40s, {0});
  EXPECT_TRUE(world->All<StartMpirun>().empty());

  world->Arrive(1);

  EXPECT_EQ(world->LastStart().world_size, 2);
}

TEST_F(Takeover, AReportThatIsOnItsWayIsWaitedForHoweverLateItsAgentDials) {
  world->Order({0, 1}, 2, 1);
  world->Arrive(0);
  world->Pass(6s, {0});
  const control::Epoch lowest{2, 1};
  control::AgentHello hello = world->MakeHello(1);
  hello.highest_epoch = lowest;
  world->connections[1] = World::Connection(1);
  world->Take(world->membership.OnHello(world->now, World::Connection(1), hello));
  world->Ready(1);
  EXPECT_TRUE(world->All<StartMpirun>().empty());
  control::WorldReport report{lowest, Members(2), {"first"}};
  report.members.erase(report.members.begin());
  world->Say(1, report);
  world->Say(1, control::Heartbeat{});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->membership.epoch(), lowest);
  EXPECT_EQ(world->membership.members()[0].rank, 0);
}

TEST_F(Takeover, HalfOfAnothersWorldIsNoQuorum) {
  world->Order({0, 1}, 2, 1);
  Return(0, 2);
  world->Pass(6s, {0});
  EXPECT_EQ(world->membership.Status(world->now).pause_reason, "NoQuorum");
  EXPECT_EQ(Disturbances(), 0);

  world->DeclareDead({1}, {0}, 2, 1);
  world->Accept({0});

  EXPECT_THAT(world->Members(), ElementsAre(0));
}

// The previous launcher may have added a Pod to a world that the connected agents do not know.
TEST_F(Takeover, AnOrderedPodThatHasNotReportedIsMissing) {
  world->Order({0, 1, 2}, 3, 1);
  Return(0, 2);
  world->DeclareDead({1}, {0, 2}, 3, 1);
  world->Pass(6s, {0});
  EXPECT_EQ(world->membership.Status(world->now).pause_reason, "NoQuorum");
  EXPECT_EQ(Disturbances(), 0);

  world->Dial(2);
  world->Ready(2);
  world->Say(2, control::Heartbeat{});

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
}

TEST_F(Takeover, WhoPromisedALaterEpochToAnotherHasNoVote) {
  // Term 2 may have started (2, 8) with worker 0 alone; worker 1 has only accepted it.
  world->Order({0, 1, 2}, 3, 1);
  Return(1, 3, kOld, true, control::Epoch{2, 8});
  Return(2, 3);
  world->Pass(6s, {1, 2});
  EXPECT_EQ(world->membership.Status(world->now).pause_reason, "NoQuorum");

  Return(0, 3);

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);  // all workers have now reported
}

TEST_F(Takeover, AFreshJobStartsAtOnce) {
  world->Order({0, 1}, 2, 1);
  world->Arrive(0);
  world->Arrive(1);

  EXPECT_EQ(world->All<StartMpirun>().size(), 1U);
}

TEST_F(Takeover, DoesNotStartANewWorldWhileAnAgentMayReportOne) {
  world->Order({0}, 1, 1);
  control::AgentHello hello = world->MakeHello(0);
  hello.highest_epoch = kOld;
  world->connections[0] = World::Connection(0);
  world->Take(world->membership.OnHello(world->now, World::Connection(0), hello));
  world->Ready(0);
  EXPECT_TRUE(world->All<StartMpirun>().empty());

  world->Say(0, control::Heartbeat{});  // a heartbeat without a report: worker 0 has no world

  ASSERT_EQ(world->All<StartMpirun>().size(), 1U);
  EXPECT_EQ(world->membership.epoch(), (control::Epoch{3, 8}));
}

TEST_F(Takeover, AnEndFromBeforeTheWorldIsNotItsMembers) {
  world->Order({0, 1}, 2, 1);
  Return(0, 2);
  Return(1, 2);
  control::RankExited old;
  old.epoch = {2, 3};
  old.exit.start = "a process before the first";
  old.exit.signal = 9;
  world->Say(1, old);

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(Disturbances(), 0);
}

TEST_F(Takeover, ANewerWorldThatAnOldLauncherFormedMeanwhileIsTheOneToFollow) {
  world->Order({0, 1, 2}, 3, 1);
  for (const int worker : {0, 1, 2}) Return(worker, 3);
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  Return(0, 2, {2, 9});
  EXPECT_EQ(world->membership.epoch(), (control::Epoch{2, 9}));
  EXPECT_EQ(world->Prepared(), (control::Epoch{3, 10}));  // some members are not known to run

  world->Accept({0, 1, 2});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 2));
}

TEST_F(Takeover, WaitsForAPodOfAnEarlierOrderBeforeItStartsANewWorld) {
  world->Order({0, 1}, 2, 1);
  world->Order({1}, 1, 1);
  world->Arrive(1);
  EXPECT_TRUE(world->All<StartMpirun>().empty());

  Return(0, 1);

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->membership.epoch(), kOld);
}

TEST_F(Takeover, AReportStopsAStartOfItsOwn) {
  world->Order({0, 1}, 2, 2);
  world->Arrive(0);
  world->Arrive(1);
  ASSERT_EQ(world->phase(), LauncherPhase::kStarting);
  world->Close(1);
  Return(1, 1, {2, 1});
  world->MpirunEnds(143);

  EXPECT_EQ(world->phase(), LauncherPhase::kAdopting);
}

TEST_F(Takeover, AnAdoptedWorldLosesMembersLikeAnyOther) {
  world->Order({0, 1, 2}, 3, 1);
  for (const int worker : {0, 1, 2}) Return(worker, 3);
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  world->Exit(1, 0, 9);
  world->Accept({0, 2});

  EXPECT_EQ(world->membership.epoch(), (control::Epoch{3, 8}));
  EXPECT_THAT(world->Members(), ElementsAre(0, 2));
}

}  // namespace
}  // namespace ringmaster::launcher
