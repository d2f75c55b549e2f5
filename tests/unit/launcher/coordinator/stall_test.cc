// Tests how Coordinator handles a rank that hangs: it asks the agent to end the rank, records the
// failure and stack, and continues without the rank. Also tests cases in which it blames no rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using control::RankPhase;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kStack[] = "thread 7 ringmaster-train, running\n  #0 ringmaster-train(Spin+0x1)\n";

struct StallWorld : World {
  explicit StallWorld(int workers = 3, int slots = 1) : World(slots) {
    std::vector<int> all;
    for (int i = 0; i < workers; ++i) all.push_back(i);
    Order(all, workers, 1);
    for (const int i : all) Arrive(i);
    AttachAll();
    phases.assign(static_cast<std::size_t>(workers * slots), RankPhase::kCompute);
  }

  // Lets time pass. Each worker sends heartbeats together with the position of its rank.
  void Beat(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 100ms) {
      now += 100ms;
      for (const control::Member& member : std::vector(membership.members())) {
        const int worker = std::stoi(member.pod_uid.substr(4));
        if (silent.contains(worker)) continue;
        Say(worker, control::RankPositions{membership.epoch(), {PositionOf(member, worker)}});
        Say(worker, control::Heartbeat{});
      }
      Take(membership.OnTick(now));
    }
  }
  control::RankPosition PositionOf(const control::Member& member, int worker) const {
    return {.rank = member.rank,
            .slot = member.slot,
            .entered = true,
            .step = step,
            .phase = phases[static_cast<std::size_t>(worker * options.slots + member.slot)],
            .peer = peers.contains(worker) ? peers.at(worker) : -1,
            .step_micros = 100'000,
            .own_micros = 50'000,
            .applied_millis = applied_here ? 0 : -1,
            .collectives = {.launched = counts, .begun = counts - (behind == worker ? 1 : 0)}};
  }
  void Train(int steps) {
    for (int i = 0; i < steps; ++i) {
      ++step;
      Beat(100ms);
    }
    Commit(std::stoi(membership.members().front().pod_uid.substr(4)), step);
  }
  // Makes all other ranks wait for the rank in this worker's slot from now on.
  void Hang(int worker, int slot = 0) {
    phases.assign(phases.size(), RankPhase::kReduce);
    phases[static_cast<std::size_t>(worker * options.slots + slot)] = RankPhase::kCompute;
  }
  std::vector<control::EndStalledRank> Asked() const {
    std::vector<control::EndStalledRank> asked;
    for (const SendTo& send : All<SendTo>()) {
      if (const auto* end = std::get_if<control::EndStalledRank>(&send.message)) {
        asked.push_back(*end);
      }
    }
    return asked;
  }

  int64_t step = 0;
  bool applied_here = true;       // ranks have applied a step in this world
  int64_t counts = -1;            // number of collectives that each rank has launched
  int behind = -1;                // the worker whose device is one collective behind
  std::vector<RankPhase> phases;  // by worker and slot
  std::map<int, int> peers;       // by worker: the rank that the worker's rank waits for
  std::set<int> silent;
};

TEST(Stall, EndsTheRankThatBlocksTheOthersAndContinuesWithoutIt) {
  StallWorld world;
  world.Train(10);
  world.Hang(1);
  world.Beat(2000ms);
  EXPECT_EQ(world.Asked().size(), 0U);
  world.Beat(200ms);

  ASSERT_EQ(world.Asked().size(), 1U);
  EXPECT_EQ(world.Sent<control::EndStalledRank>(1), 1);
  EXPECT_EQ(world.Asked().at(0).start, "first");
  EXPECT_THAT(world.Asked().at(0).reason, HasSubstr("rank 1 made no progress for 2"));
  EXPECT_THAT(world.Asked().at(0).reason, HasSubstr("at step 10, in phase 'compute'"));

  const control::Epoch before = world.membership.epoch();
  world.Say(1, control::RankStack{0, "first", world.Asked().at(0).reason, kStack});
  world.Exit(1, 0, 9);
  world.Accept({0, 1, 2});
  EXPECT_GT(world.membership.epoch(), before);
  EXPECT_THAT(world.Members(), ElementsAre(0, 2));
  const auto status = world.membership.Status(world.now);
  ASSERT_EQ(status.failures.size(), 1U);
  EXPECT_EQ(status.failures[0].pod_uid, "uid-1");
  EXPECT_EQ(status.failures[0].signal, 9);
  EXPECT_EQ(status.failures[0].stack, kStack);
  EXPECT_THAT(status.failures[0].last_lines.back(),
              HasSubstr("it was stopped: rank 1 made no progress"));
  EXPECT_EQ(world.Asked().size(), 1U);

  world.Commit(0, 11);
  const auto recovery = world.membership.Status(world.now).last_recovery;
  ASSERT_TRUE(recovery.has_value());
  EXPECT_EQ(recovery->cause, "Stalled");
  EXPECT_EQ(recovery->pod, "digits-worker-1");
  EXPECT_GE(recovery->detected_millis, 2000);
  EXPECT_LT(recovery->detected_millis, 2500);
}

TEST(Stall, NamesTheCollectiveThatTheHungDeviceHasNotReached) {
  StallWorld world;
  world.Train(10);
  world.phases.assign(3, RankPhase::kReduce);
  world.counts = 1204;
  world.behind = 1;
  world.Beat(2200ms);

  ASSERT_EQ(world.Asked().size(), 1U);
  EXPECT_EQ(world.Sent<control::EndStalledRank>(1), 1);
  world.Say(1, control::RankStack{0, "first", world.Asked().at(0).reason, kStack});
  world.Exit(1, 0, 9);
  const auto status = world.membership.Status(world.now);
  ASSERT_EQ(status.failures.size(), 1U);
  EXPECT_THAT(
      status.failures[0].last_lines.back(),
      HasSubstr(": its device never reached collective 1204 of this world, which all others "
                "did"));
}

// The limit is ten heartbeats, or three if the agents are so many that each sends one per 500 ms.
TEST(Stall, JudgesByReportsThatAreNotTooOld) {
  struct Case {
    int other_agents;
    std::chrono::milliseconds heard_for;  // time in which worker 2 reports, of 2.1 s
    std::size_t judged;
  };
  for (const Case& tried :
       {Case{0, 1000ms, 0}, {0, 1100ms, 1}, {1250, 500ms, 0}, {1250, 600ms, 1}}) {
    StallWorld world;
    world.Train(10);
    world.Hang(1);
    world.Beat(tried.heard_for);
    world.silent = {2};
    for (int agent = 10; agent < 10 + tried.other_agents; ++agent) {
      world.membership.OnHello(world.now, World::Connection(agent), world.MakeHello(agent));
    }
    world.Beat(2100ms - tried.heard_for);
    EXPECT_EQ(world.Asked().size(), tried.judged) << tried.other_agents << " other agents";
  }
}

TEST(Stall, ChangesNothingElseWhileTheEndOfAStalledRankIsPending) {
  StallWorld world;
  world.Train(10);
  world.Hang(1);
  world.Beat(2100ms);
  ASSERT_EQ(world.Asked().size(), 1U);
  world.Order({0, 1, 2, 3}, 4, 1);
  world.now += 10ms;
  world.Arrive(3);
  world.now += 90ms;
  world.Beat(100ms);
  EXPECT_EQ(world.Sent<control::SwitchEpoch>(), 0);

  world.Exit(1, 0, 9);
  world.Accept({0, 1, 2, 3});

  EXPECT_THAT(world.Members(), ElementsAre(0, 2, 3));
}

TEST(Stall, TakesTheRankBackOnceItHasLoadedAgain) {
  StallWorld world;
  world.Train(10);
  world.Hang(1);
  world.Beat(2200ms);
  world.Exit(1, 0, 9);
  world.Accept({0, 1, 2});
  ASSERT_THAT(world.Members(), ElementsAre(0, 2));
  world.phases.assign(3, RankPhase::kCompute);
  world.Commit(0, 11);
  world.Reload(1, "second");
  world.Train(1);
  world.AllAtBoundary(world.step);
  world.Accept({0, 1, 2});
  EXPECT_THAT(world.Members(), ElementsAre(0, 2, 1));
}

TEST(Stall, ContinuesWithoutTheWorkerWhoseRankCannotBeEnded) {
  StallWorld world;
  world.Train(10);
  world.Hang(1);
  world.Beat(2100ms);
  ASSERT_EQ(world.Asked().size(), 1U);
  world.Say(1, control::RankStack{0, "first", "it stood still", kStack});
  world.Beat(1900ms);
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  world.Beat(100ms);
  EXPECT_EQ(world.phase(), LauncherPhase::kForming);
  world.Accept({0, 2});
  EXPECT_THAT(world.Members(), ElementsAre(0, 2));
  const auto status = world.membership.Status(world.now);
  ASSERT_EQ(status.failures.size(), 1U);
  EXPECT_EQ(status.failures[0].stack, kStack);
  EXPECT_THAT(status.failures[0].last_lines.front(), HasSubstr("could not be stopped"));
}

TEST(Stall, ContinuesWithTheOtherPodIfSeveralRanksOfOneCannotBeEnded) {
  StallWorld world(2, 8);
  world.Train(10);
  world.Hang(0, 1);
  world.phases[2] = RankPhase::kCompute;
  world.Beat(2100ms);
  ASSERT_EQ(world.Asked().size(), 2U);
  world.Beat(2000ms);

  EXPECT_EQ(world.phase(), LauncherPhase::kForming);
  world.Accept({1});
  EXPECT_THAT(world.Members(), Each(1));
}

// The ranks of the new Pod resume from the checkpoint.
TEST(Stall, ReplacesTheOnlyWorkerIfARankOfItCannotBeEnded) {
  StallWorld world(1, 2);
  world.Train(10);
  world.Hang(0, 1);
  world.Beat(2100ms);
  ASSERT_EQ(world.Asked().size(), 1U);
  world.Beat(1900ms);
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  world.Beat(100ms);
  EXPECT_EQ(world.phase(), LauncherPhase::kStopping);
  world.MpirunEnds(143);

  EXPECT_EQ(world.phase(), LauncherPhase::kWaitingForAgents);
  const auto status = world.membership.Status(world.now);
  ASSERT_EQ(status.workers.size(), 1U);
  EXPECT_TRUE(status.workers[0].fenced);
  ASSERT_EQ(status.failures.size(), 1U);
  EXPECT_EQ(status.failures[0].slot, 1);
  EXPECT_THAT(status.failures[0].last_lines.front(), HasSubstr("could not be stopped"));

  world.Order({1}, 1, 1);
  world.Arrive(1);
  world.AttachAll();
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world.Members(), ElementsAre(1, 1));
  world.Commit(1, 6);
  ASSERT_TRUE(world.membership.Status(world.now).last_recovery.has_value());
  EXPECT_EQ(world.membership.Status(world.now).last_recovery->cause, "Stalled");
  EXPECT_EQ(world.membership.Status(world.now).last_recovery->steps_lost, 5);
}

TEST(Stall, AsksAgainAfterTheAgentHasReconnected) {
  StallWorld world;
  world.Train(10);
  world.Hang(1);
  world.Beat(2100ms);
  ASSERT_EQ(world.Asked().size(), 1U);
  world.Beat(1900ms);
  world.Dial(1, 901);
  world.Ready(1);

  ASSERT_EQ(world.Asked().size(), 2U);
  EXPECT_EQ(world.Sent<control::EndStalledRank>(1), 1);
  EXPECT_EQ(world.Asked().at(1).start, world.Asked().at(0).start);
  EXPECT_EQ(world.Asked().at(1).reason, world.Asked().at(0).reason);
  world.Beat(1900ms);
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning) << "the agent may have missed the first one";
  world.Exit(1, 0, 9);
  world.Accept({0, 1, 2});
  EXPECT_FALSE(world.membership.Status(world.now).workers.at(1).fenced);
}

TEST(Stall, KeepsOnlyTheNewestStack) {
  StallWorld world(4);
  world.Train(10);
  for (const int hangs : {1, 2}) {
    world.Hang(hangs);
    world.Beat(2200ms);
    world.Say(hangs,
              control::RankStack{0, "first", "it stood still", kStack + std::to_string(hangs)});
    world.Exit(hangs, 0, 9);
    world.Accept({0, 1, 2, 3});
    world.phases.assign(4, RankPhase::kCompute);
    world.Train(2);
  }
  const auto status = world.membership.Status(world.now);
  ASSERT_EQ(status.failures.size(), 2U);
  EXPECT_EQ(status.failures[0].stack, "");
  EXPECT_EQ(status.failures[1].stack, std::string(kStack) + "2");
}

TEST(Stall, CutsAStackThatIsTooLongAndDropsOneOfAnotherProcess) {
  StallWorld world;
  world.Train(10);
  world.Say(1, control::RankStack{0, "first", std::string(301, 'y'), std::string(100'000, 'x')});
  world.Say(2, control::RankStack{0, "other", "it loads", kStack});
  world.Say(2, control::RankStack{-1, "first", "it loads", kStack});
  world.Exit(1, 0, 9);
  world.Exit(2, 0, 9);
  const auto status = world.membership.Status(world.now);
  ASSERT_EQ(status.failures.size(), 2U);
  EXPECT_EQ(status.failures[0].stack.size(), control::kMaxStackBytes);
  EXPECT_EQ(status.failures[0].last_lines.back(), "it was stopped: " + std::string(300, 'y'));
  EXPECT_EQ(status.failures[1].stack, "");
}

TEST(Stall, LeavesTheYoungerOneOutOfAPairThatCannotConnect) {
  StallWorld world;
  world.Train(10);
  world.Exit(0, 0, 9);
  world.Accept({0, 1, 2});
  world.Reload(0, "second");
  world.Commit(1, 11);
  world.AllAtBoundary(11);
  world.Accept({0, 1, 2});
  ASSERT_THAT(world.Members(), ElementsAre(1, 2, 0));
  world.phases.assign(3, RankPhase::kConnect);
  world.peers = {{1, 2}, {0, 0}};  // ranks 0 and 2 wait for each other
  for (int worlds = 0; worlds < 4; ++worlds) {
    ASSERT_THAT(world.Members(), ElementsAre(1, 2, 0)) << "world " << worlds;
    world.Beat(13s);
    world.Accept({0, 1, 2});
  }
  EXPECT_THAT(world.Members(), ElementsAre(1, 2)) << "three worlds of the same members are enough";
  EXPECT_EQ(world.Asked().size(), 0U) << "nobody hangs";
  EXPECT_EQ(world.membership.Status(world.now).failures.back().pod_uid, "uid-0");
}

TEST(Stall, BlamesNoRankWhileTheWorldFormsOrPauses) {
  StallWorld world;
  world.Train(10);
  world.Hang(2);
  world.Exit(1, 0, 9);  // the others now wait for the next world
  ASSERT_EQ(world.phase(), LauncherPhase::kForming);
  world.Beat(1500ms);
  world.Accept({0, 1, 2});
  world.Beat(1900ms);  // the new world has just begun
  EXPECT_EQ(world.Asked().size(), 0U);
}

TEST(Stall, BlamesNoRankForTheTimeOfTheFirstStepInANewWorld) {
  StallWorld world;
  world.Train(10);
  world.Exit(1, 0, 9);
  world.Accept({0, 1, 2});
  world.applied_here = false;
  world.Hang(2);
  world.Beat(50s);
  EXPECT_EQ(world.Asked().size(), 0U);
  world.Beat(11s);
  EXPECT_EQ(world.Asked().size(), 1U);
}

TEST(Stall, BlamesNoRankAfterALateTickOrForReportsOfOthers) {
  StallWorld world;
  world.Train(10);
  world.Hang(1);
  world.Beat(1800ms);
  world.now += 3s;  // the launcher was suspended
  world.Beat(1800ms);
  EXPECT_EQ(world.Asked().size(), 0U);
  world.Beat(500ms);
  EXPECT_EQ(world.Asked().size(), 1U);

  // Ignores positions of an earlier world, another worker's rank, and ranks that do not exist.
  StallWorld other;
  other.Train(10);
  other.Hang(1);
  other.silent = {1};
  const control::Member member = other.membership.members().at(1);
  for (int i = 0; i < 19; ++i) {
    other.Beat(100ms);
    control::RankPosition stands = other.PositionOf(member, 1);
    other.Say(1, control::Heartbeat{});
    other.Say(1, control::RankPositions{{3, 0}, {stands}});
    other.Say(0, control::RankPositions{other.membership.epoch(), {stands}});
    stands.rank = 99;
    other.Say(1, control::RankPositions{other.membership.epoch(), {stands}});
    stands.rank = -1;
    other.Say(1, control::RankPositions{other.membership.epoch(), {stands}});
  }
  other.Say(1, control::Heartbeat{});
  EXPECT_EQ(other.Asked().size(), 0U);
}

TEST(Stall, ReportsTheStepTimesOfAStragglerAndOfTheOthers) {
  StallWorld world(2);
  for (int64_t i = 0; i < 110; ++i) {
    world.Pass(100ms, {0, 1});
    for (const control::Member& member : std::vector(world.membership.members())) {
      control::RankPosition stands = world.PositionOf(member, member.rank);
      stands.step = i;
      stands.own_micros = member.rank == 1 ? 90'000 : 50'000;
      world.Say(member.rank, control::RankPositions{world.membership.epoch(), {stands}});
    }
  }

  const auto status = world.membership.Status(world.now);

  ASSERT_EQ(status.stragglers.size(), 1U);
  EXPECT_EQ(status.stragglers[0].step_millis, 90);
  EXPECT_EQ(status.stragglers[0].median_millis, 50);
  EXPECT_EQ(status.stragglers[0].for_seconds, 10);
}

TEST(Stall, NamesAStragglerWhileItIsOne) {
  StallWorld world;
  for (int i = 0; i < 120; ++i) {
    ++world.step;
    world.Beat(100ms);
    const control::Member member = world.membership.members().at(2);
    control::RankPosition slow = world.PositionOf(member, 2);
    slow.step += 1;
    slow.own_micros = 200'000;
    world.Say(2, control::RankPositions{world.membership.epoch(), {slow}});
  }
  const auto status = world.membership.Status(world.now);
  ASSERT_EQ(status.stragglers.size(), 1U);
  EXPECT_EQ(status.stragglers[0].pod_uid, "uid-2");
  EXPECT_EQ(status.stragglers[0].pod, "digits-worker-2");
  EXPECT_EQ(status.stragglers[0].rank, 2);
  EXPECT_NEAR(status.stragglers[0].median_millis, 50, 1);
  EXPECT_GT(status.stragglers[0].step_millis, 75);

  JobTimes times = world.membership.Times(world.now);
  ASSERT_EQ(times.ranks.size(), 3U);
  EXPECT_TRUE(times.ranks[2].straggler);
  times.job = "team/digits";
  const std::string text = MetricsText(times);
  EXPECT_THAT(text, HasSubstr("ringmaster_rank_own_seconds{job=\"team/digits\",worker=\"digits-"
                              "worker-0\",node=\"node-0\",rank=\"0\"} 0.05"));
  EXPECT_THAT(text, HasSubstr("rank=\"2\"} 1"));
  EXPECT_THAT(text, HasSubstr("ringmaster_world_size{job=\"team/digits\"} 3"));
}

}  // namespace
}  // namespace ringmaster::launcher
