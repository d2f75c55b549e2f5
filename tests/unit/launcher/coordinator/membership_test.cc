// Tests how worlds form, end and form again.

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::HasSubstr;
using testing::Not;

TEST(Membership, StartsWhenAllOrderedWorkersAreReady) {
  World world;
  world.Arrive(1);
  world.Order({0, 1});
  EXPECT_TRUE(world.All<StartMpirun>().empty());

  world.Arrive(0);

  ASSERT_EQ(world.All<StartMpirun>().size(), 1U);
  const StartMpirun start = world.LastStart();
  EXPECT_EQ(start.world_size, 2);
  EXPECT_EQ(start.hosts[0].address, "10.0.0.1");
  EXPECT_EQ(start.hosts[0].ssh_port, 2200);
  EXPECT_EQ(start.hosts[1].pod_uid, "uid-1");
}

TEST(Membership, WaitsForPodsThatTheOrderCannotNameYet) {
  World world;
  world.Order({0, 1}, 3, 3);
  world.Arrive(0);
  world.Arrive(1);
  world.Pass(60s, {0, 1});

  EXPECT_TRUE(world.All<StartMpirun>().empty());
  EXPECT_EQ(world.membership.Status(world.now).message,
            "waiting for 1 of 3 workers: the others do not have a Pod yet");
}

TEST(Membership, APodThatIsOrderedNoMoreIsReportedForAMinute) {
  World world;
  world.Order({0, 1}, 2, 1);
  world.Order({0}, 1, 1);

  world.Pass(60s - 100ms, {});
  ASSERT_EQ(world.membership.Status(world.now).workers.size(), 2U);
  EXPECT_FALSE(world.membership.Status(world.now).workers[0].drained);
  EXPECT_TRUE(world.membership.Status(world.now).workers[1].drained);
  world.Pass(100ms, {});
  EXPECT_EQ(world.membership.Status(world.now).workers.size(), 1U);
}

TEST(Membership, StartsWithMinReplicasAfterThirtySeconds) {
  CoordinatorOptions options = World::Options(1, true);
  options.term = 1;  // no earlier launcher can have formed a world
  for (const int min_replicas : {0, 1, 2}) {
    World world(options);
    world.Order({0, 1, 2, 3}, 4, min_replicas);
    const std::vector<int> there = min_replicas == 2 ? std::vector{0, 2} : std::vector{2};
    for (const int worker : there) world.Arrive(worker);
    world.Pass(30s - 100ms, there);
    EXPECT_TRUE(world.All<StartMpirun>().empty());

    world.Pass(100ms, there);

    EXPECT_EQ(world.LastStart().world_size, std::ssize(there));
  }
}

TEST(Membership, ReportsHowLongItWaitsForMore) {
  CoordinatorOptions options = World::Options(1, true);
  options.term = 1;  // no earlier launcher can have formed a world
  World world(options);
  world.Order({0, 1, 2}, 3, 2);
  world.Arrive(0);
  world.Pass(30s - 100ms, {0});
  EXPECT_THAT(world.membership.Status(world.now).message,
              HasSubstr("; after 30 s the job starts once at least 2 workers are ready"));

  world.Pass(100ms, {0});
  EXPECT_THAT(world.membership.Status(world.now).message, Not(HasSubstr("the job starts once")));
}

TEST(Membership, DoesNotStartBeforeMpirunIsKnown) {
  Coordinator membership(World::Options(1, true));
  World world;
  auto ordered = membership.OnOrder(world.now, world.MakeOrder({0}, 1, 1));
  ASSERT_TRUE(ordered.ok());
  membership.OnHello(world.now, 1, world.MakeHello(0));
  const Actions ready =
      membership.OnMessage(world.now, 1, control::AgentReady{"10.0.0.1", 2200, {}, {}});
  EXPECT_TRUE(ready.empty());
  EXPECT_EQ(membership.Status(world.now).message, "waiting for 0 of 1 worker") << "and for nobody";

  const Actions known = membership.OnMpiVersion(world.now, "5.0.7");

  ASSERT_EQ(known.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<StartMpirun>(known[0]));
}

TEST(Membership, ReportsMissingWorkers) {
  World world;
  EXPECT_THAT(world.membership.Status(world.now).message, HasSubstr("operator"));
  world.Order({0, 1, 2});
  EXPECT_EQ(world.membership.Status(world.now).message,
            "waiting for 3 of 3 workers: digits-worker-0 (node-0) has not connected");
  world.Arrive(0);
  world.Arrive(2);

  EXPECT_EQ(world.membership.Status(world.now).message,
            "waiting for 1 of 3 workers: digits-worker-1 (node-1) has not connected");
}

TEST(Membership, ReportsWhyAWorkerIsMissing) {
  struct Case {
    std::function<void(World&)> happens;  // causes the event at worker 1
    const char* why;
  };
  const Case cases[] = {
      {[](World&) {}, "has not connected"},
      {[](World& world) {
         world.DeclareDead({1}, {0, 1}, 2, 2);
       },
       "was lost"},
      {[](World& world) { world.Dial(1); }, "is not ready yet"},
      {[](World& world) {
         world.Dial(1);
         world.Close(1);
       },
       "is disconnected"},
      {[](World& world) {
         world.Dial(1);
         world.Say(1, control::AgentLeaving{"SIGTERM"});
       },
       "is leaving"},
  };
  for (const Case& c : cases) {
    World world;
    world.Order({0, 1});
    world.Arrive(0);

    c.happens(world);

    EXPECT_EQ(world.membership.Status(world.now).message,
              std::string("waiting for 1 of 2 workers: digits-worker-1 (node-1) ") + c.why);
  }
}

TEST(Membership, RefusesLowerStamps) {
  World world;
  world.Order({0});
  control::Order old = world.MakeOrder({0, 1}, 2, 2);
  old.stamp = {0, 99};

  const auto result = world.membership.OnOrder(world.now, old);

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(world.membership.Status(world.now).workers.size(), 1U);
  EXPECT_TRUE(world.membership.OnOrder(world.now, world.MakeOrder({0}, 1, 1)).ok())
      << "the same one again";
}

TEST(Membership, RefusesHellosThatDoNotBelong) {
  struct Case {
    const char* what;
    void (*spoil)(control::AgentHello&);
    const char* reason;
  };
  const Case cases[] = {
      {"token", [](auto& h) { h.token = "guess"; }, "wrong token"},
      {"no token", [](auto& h) { h.token.clear(); }, "wrong token"},
      {"job", [](auto& h) { h.job_uid = "another"; }, "wrong job"},
      {"Pod", [](auto& h) { h.pod_uid = ""; }, "wrong job"},
      {"slots", [](auto& h) { h.slots = 8; }, "slots"},
      {"protocol", [](auto& h) { h.protocol = 1; }, "protocol"},
  };
  for (const Case& c : cases) {
    World world;
    control::AgentHello hello = world.MakeHello(0);
    c.spoil(hello);

    world.Take(world.membership.OnHello(world.now, 7, hello));

    ASSERT_EQ(world.All<Refuse>().size(), 1U) << c.what;
    EXPECT_THAT(world.All<Refuse>()[0].reason, HasSubstr(c.reason)) << c.what;
    EXPECT_EQ(world.Sent<control::Welcome>(), 0) << c.what;
  }
}

TEST(Membership, WelcomesAnAgentOfANewerRelease) {
  World world;
  control::AgentHello hello = world.MakeHello(0);
  hello.protocol = control::kProtocolVersion + 1;

  world.Take(world.membership.OnHello(world.now, 7, hello));

  EXPECT_TRUE(world.All<Refuse>().empty());
  EXPECT_EQ(world.Sent<control::Welcome>(), 1);
}

TEST(Membership, DropsAnAgentThatFollowsANewerLauncher) {
  World world;
  control::AgentHello hello = world.MakeHello(0);
  hello.highest_epoch = {4, 1};

  world.Take(world.membership.OnHello(world.now, 7, hello));

  EXPECT_EQ(world.All<Drop>().size(), 1U);
  EXPECT_TRUE(world.All<Refuse>().empty());
}

TEST(Membership, NumbersItsEpochAboveWhatAgentsHaveSeen) {
  World world;
  world.Order({0});
  control::AgentHello hello = world.MakeHello(0);
  hello.highest_epoch = {3, 17};
  world.connections[0] = 100;
  world.Take(world.membership.OnHello(world.now, 100, hello));
  world.Ready(0);
  EXPECT_TRUE(world.All<StartMpirun>().empty());  // the worker may still report a world
  world.Say(0, control::Heartbeat{});

  EXPECT_EQ(world.membership.epoch(), (control::Epoch{3, 18}));
  EXPECT_EQ(world.LastStart().cohort, 18);
}

TEST(Membership, OpensTheGateWhenEverySlotHasAttachedOnce) {
  World world;
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);

  world.Attach(0, 0, 0, 2);
  EXPECT_EQ(world.Sent<control::StartEpoch>(), 0);
  EXPECT_EQ(world.membership.Status(world.now).world_size, 0);
  world.Attach(1, 0, 1, 2);

  EXPECT_EQ(world.Sent<control::StartEpoch>(0), 1);
  EXPECT_EQ(world.Sent<control::StartEpoch>(1), 1);
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world.membership.Status(world.now).world_size, 2);
}

TEST(Membership, CountsARepeatedAttachOnce) {
  World world;
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);
  world.Attach(0, 0, 0, 2);
  world.Close(0);
  world.Dial(0, 500);
  world.Ready(0);
  world.Attach(0, 0, 0, 2);
  EXPECT_EQ(world.phase(), LauncherPhase::kStarting);

  world.Attach(1, 0, 1, 2);

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
}

TEST(Membership, IgnoresAttachesOfOtherCohorts) {
  World world;
  world.Order({0});
  world.Arrive(0);

  world.Say(0, control::SlotAttached{world.LastStart().cohort - 1, 0, 0, 1});

  EXPECT_EQ(world.phase(), LauncherPhase::kStarting);
}

TEST(Membership, EveryAgentGetsOneHeartbeatPerInterval) {
  struct Case {
    int agents;
    std::chrono::milliseconds beat;
  };
  for (const Case& c : {Case{3, 100ms}, Case{500, 200ms}, Case{1249, 400ms}, Case{2000, 500ms}}) {
    World world;
    std::vector<ConnectionId> everyone;
    for (int worker = 0; worker < c.agents; ++worker) {
      world.Dial(worker);
      everyone.push_back(World::Connection(worker));
    }
    for (int beat = 0; beat < 2; ++beat) {
      world.actions.clear();
      world.Pass(c.beat, {});
      std::vector<ConnectionId> told;
      for (const SendTo& send : world.All<SendTo>()) {
        if (World::Is<control::Heartbeat>(send.message)) told.push_back(send.connection);
      }
      std::sort(told.begin(), told.end());
      EXPECT_EQ(told, everyone) << c.agents;
    }
  }
}

// Tests direct jobs. Each change of the world restarts the program.
class RunningWorld : public testing::Test {
 protected:
  RunningWorld() {
    world.Order({0, 1, 2}, 3, 1);
    for (const int worker : {2, 0, 1}) world.Arrive(worker);
    world.AttachAll();
  }

  // Makes the worker's agent, which has accepted the first world, connect again.
  void Redial(int worker) {
    control::AgentHello hello = world.MakeHello(worker);
    hello.highest_epoch = {3, 1};
    world.connections[worker] = 501;
    world.Take(world.membership.OnHello(world.now, 501, hello));
  }

  // Makes the survivors report that their ranks have stopped, and ends mpirun.
  void Stopped(const std::vector<int>& survivors) {
    for (const int worker : survivors) world.Exit(worker, 0, 15);
    world.MpirunEnds(143);
  }

  World world{1, false};
};

TEST_F(RunningWorld, SendsAReconnectedMemberWhatItMayHaveMissed) {
  world.Close(1);
  world.Pass(100ms, {0, 2});
  Redial(1);

  EXPECT_EQ(world.Sent<control::StartEpoch>(1), 1);
  EXPECT_EQ(world.Sent<control::StopEpoch>(1), 0);
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
}

TEST_F(RunningWorld, EndsTheProgramOfAWorkerThatWasSilentWhileItsWorldEnded) {
  world.Order({0, 1}, 2, 1);
  ASSERT_EQ(world.phase(), LauncherPhase::kStopping);
  Stopped({1, 2});
  world.Pass(2200ms, {1, 2});
  ASSERT_EQ(world.phase(), LauncherPhase::kWaitingForAgents);

  Redial(0);

  EXPECT_EQ(world.Sent<control::StopEpoch>(0), 1);
}

TEST_F(RunningWorld, LosesAMemberThatDoesNotRedial) {
  world.Close(1);
  world.Pass(700ms, {0, 2});

  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  EXPECT_EQ(world.Sent<control::StopEpoch>(0), 1);
  EXPECT_EQ(world.Sent<control::StopEpoch>(2), 1);
  EXPECT_EQ(world.All<StopMpirun>().size(), 1U);
}

TEST_F(RunningWorld, LosesASilentMemberAfterTwoSeconds) {
  world.Pass(2000ms, {0, 2});
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);

  world.Pass(100ms, {0, 2});

  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  EXPECT_EQ(world.All<Drop>().size(), 1U);
}

TEST_F(RunningWorld, LosesNoWorkerAfterItWasSuspendedItself) {
  world.Pass(100ms, {0, 1, 2});
  world.now += 10s;
  world.Take(world.membership.OnTick(world.now));
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);

  world.Pass(1s, {0, 1, 2});

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
}

TEST_F(RunningWorld, FencesALostPod) {
  world.Close(1);
  world.Pass(700ms, {0, 2});
  world.Dial(1, 501);

  ASSERT_EQ(world.All<Refuse>().size(), 1U);
  EXPECT_THAT(world.All<Refuse>()[0].reason, HasSubstr("declared lost"));
}

TEST_F(RunningWorld, ReformsWithTheReplacementLast) {
  world.Close(0);
  world.Pass(700ms, {1, 2});
  Stopped({1, 2});
  EXPECT_EQ(world.phase(), LauncherPhase::kWaitingForAgents);
  world.Order({3, 1, 2}, 3, 1);  // worker 3 replaces worker 0
  world.Arrive(3);

  const StartMpirun start = world.LastStart();
  ASSERT_EQ(world.All<StartMpirun>().size(), 2U);
  EXPECT_EQ(start.hosts[0].pod_uid, "uid-1");
  EXPECT_EQ(start.hosts[1].pod_uid, "uid-2");
  EXPECT_EQ(start.hosts[2].pod_uid, "uid-3");
  EXPECT_EQ(world.membership.epoch(), (control::Epoch{3, 2}));
}

TEST_F(RunningWorld, EndsTheEpochWhenAMemberIsNoLongerWanted) {
  world.Order({0, 1});
  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  Stopped({0, 1, 2});

  EXPECT_EQ(world.LastStart().world_size, 2);
}

TEST_F(RunningWorld, TakesJoinersOnlyWhenAllAreReady) {
  world.Order({0, 1, 2, 3, 4});
  world.Arrive(3);
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);

  world.Arrive(4);

  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
}

TEST_F(RunningWorld, DoesNotKeepJoinersWaitingForEver) {
  world.Order({0, 1, 2, 3, 4, 5}, 6, 1);
  world.Arrive(3);
  world.Pass(20s, {0, 1, 2, 3});
  world.Arrive(4);  // a later joiner does not extend the first one's wait
  world.Pass(10s - 100ms, {0, 1, 2, 3, 4});
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);

  world.Pass(100ms, {0, 1, 2, 3, 4});

  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  EXPECT_THAT(world.membership.Status(world.now).message, HasSubstr("2 workers join"));
}

TEST_F(RunningWorld, DoesNotBlameTheRanksOfALeavingWorker) {
  world.Say(1, control::AgentLeaving{"SIGTERM"});
  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  world.Exit(1, 0, 9);
  world.Exit(0, 75);
  world.Exit(2, 75);
  world.MpirunEnds(1);

  EXPECT_FALSE(world.Decided());
  EXPECT_EQ(world.phase(), LauncherPhase::kWaitingForAgents);
  EXPECT_THAT(world.membership.Status(world.now).message,
              HasSubstr("digits-worker-1 (node-1) is leaving"));
}

TEST_F(RunningWorld, ContinuesIfStoppedRanksAreNeverReported) {
  world.Order({0, 1});
  world.MpirunEnds(143);
  world.Pass(5s - 100ms, {0, 1, 2});
  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);

  world.Pass(100ms, {0, 1, 2});

  EXPECT_EQ(world.LastStart().world_size, 2);
}

TEST_F(RunningWorld, IgnoresMessagesOfEndedEpochs) {
  const control::Epoch old = world.membership.epoch();
  world.Order({0, 1});
  Stopped({0, 1, 2});
  world.AttachAll();
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);

  control::RankExited late{old, {}};
  late.exit.exit_code = 3;
  world.Say(0, late);
  world.Say(0, control::RankDone{old, 0});
  world.Say(0, control::RankProgress{old, {5, 10, 1, 1, -1}});
  world.Pass(3s, {0, 1, 2});

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_FALSE(world.membership.Status(world.now).progress);
}

TEST_F(RunningWorld, TreatsARestartedAgentAsALoss) {
  world.Dial(1, 501, "second");

  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  Stopped({0, 2});
  world.Ready(1);
  EXPECT_EQ(world.All<StartMpirun>().size(), 2U);
}

TEST_F(RunningWorld, ClosesAConnectionThatSendsWhatAgentsNeverSend) {
  world.Say(1, control::Shutdown{});

  EXPECT_EQ(world.All<Drop>().size(), 1U);
}

TEST_F(RunningWorld, RelaysTheRendezvousToTheAskersConnection) {
  const control::Epoch epoch = world.membership.epoch();
  world.Say(1, control::StoreGet{epoch, 9, 1, {"a", "b"}});
  world.Say(0, control::StoreSet{epoch, "a", "1"});
  EXPECT_EQ(world.Sent<control::StoreValues>(), 0);
  world.Close(1);
  world.Dial(1, 501);

  world.Say(2, control::StoreSet{epoch, "b", "2"});

  EXPECT_EQ(world.Sent<control::StoreValues>(1), 1);
}

TEST_F(RunningWorld, StopsEverythingWhenItIsAskedToEnd) {
  world.Take(world.membership.OnTerminate(world.now));

  EXPECT_EQ(world.Sent<control::StopEpoch>(), 3);
  EXPECT_EQ(world.All<StopMpirun>().size(), 1U);
  EXPECT_FALSE(world.Decided());
}

TEST(Membership, LosesAWorkerDuringTheStartWithoutAVerdict) {
  World world;
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);
  world.Attach(0, 0, 0, 2);
  world.Close(1);
  world.MpirunEnds(1, {"ssh: connect to host 10.0.0.2 port 2201: Connection refused"});
  world.Pass(1s, {0});

  EXPECT_FALSE(world.Decided());
  EXPECT_EQ(world.phase(), LauncherPhase::kWaitingForAgents);
  world.Order({0, 2});
  world.Arrive(2);
  EXPECT_EQ(world.All<StartMpirun>().size(), 2U);
}

TEST(Membership, EndsAnEpochThatNoRankReceivedAtOnce) {
  World world;
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);
  world.Order({0});
  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);

  world.MpirunEnds(143);

  EXPECT_EQ(world.LastStart().world_size, 1);
}

// Tests the message for each change of a direct job's world.
TEST(Membership, ARestartedDirectJobReportsWhyAndHowLongItHadRun) {
  struct Change {
    const char* name;
    std::function<void(World&)> happens;
    const char* cause;
    const char* pod;
  };
  const Change table[] = {
      {"a Pod is gone", [](World& world) { world.DeclareDead({1}, {0}, 1, 1); }, "PodGone",
       "digits-worker-1"},
      {"a Pod is deleted",
       [](World& world) {
         world.Say(1, control::AgentLeaving{"SIGTERM"});
         world.Order({0}, 1, 1);
       },
       "Left", "digits-worker-1"},
      {"a Pod is replaced",
       [](World& world) {
         world.Order({0, 2}, 2, 2);
         world.Arrive(2);
       },
       "Left", "digits-worker-1"},
      {"an agent begins again",
       [](World& world) {
         world.Dial(1, 0, "second");
         world.Ready(1);
       },
       "AgentRestarted", "digits-worker-1"},
      {"fewer are wanted", [](World& world) { world.Order({0}, 1, 1); }, "ScaledDown",
       "digits-worker-1"},
      {"more are wanted",
       [](World& world) {
         world.Order({0, 1, 2}, 3, 3);
         world.Arrive(2);
       },
       "WorkersJoin", ""},
  };
  for (const Change& change : table) {
    World world(1, false);
    world.Order({0, 1});
    world.Arrive(0);
    world.Arrive(1);
    world.AttachAll();
    ASSERT_EQ(world.phase(), LauncherPhase::kRunning) << change.name;
    world.Pass(60s, {0, 1});
    EXPECT_FALSE(world.membership.Status(world.now).last_recovery) << change.name;
    const int64_t before = world.LastStart().cohort;

    change.happens(world);
    world.MpirunEnds(1);
    for (const int worker : {0, 1}) world.Exit(worker, 0, 15);
    std::vector<int> alive;
    for (const auto& [worker, connection] : world.connections) alive.push_back(worker);
    world.Pass(3s, alive);
    ASSERT_GT(world.LastStart().cohort, before) << change.name;
    world.AttachAll();

    const auto recovery = world.membership.Status(world.now).last_recovery;
    ASSERT_TRUE(recovery) << change.name;
    EXPECT_TRUE(recovery->from_start) << change.name;
    EXPECT_EQ(recovery->cause, change.cause) << change.name;
    EXPECT_EQ(recovery->pod, change.pod) << change.name;
    EXPECT_EQ(recovery->ran_millis, 60'000) << change.name;
    EXPECT_EQ(recovery->steps_lost, 0) << change.name;
  }
}

TEST(Membership, ANewLauncherReportsThatItRestartsADirectJob) {
  constexpr control::Epoch kOfAnother{2, 5};
  for (const control::Epoch highest : {kOfAnother, control::Epoch{3, 5}, control::Epoch{}}) {
    const bool ran_before = highest == kOfAnother;
    World world(1, false);
    world.Order({0});
    control::AgentHello hello = world.MakeHello(0);
    hello.highest_epoch = highest;
    world.connections[0] = World::Connection(0);
    world.Take(world.membership.OnHello(world.now, World::Connection(0), hello));
    world.Ready(0);
    world.AttachAll();
    ASSERT_EQ(world.phase(), LauncherPhase::kRunning);

    const auto recovery = world.membership.Status(world.now).last_recovery;
    EXPECT_EQ(recovery.has_value(), ran_before);
    if (!recovery) continue;
    EXPECT_EQ(recovery->cause, "LauncherLost");
    EXPECT_TRUE(recovery->from_start);
    EXPECT_EQ(recovery->ran_millis, 0);
  }
}

}  // namespace
}  // namespace ringmaster::launcher
