// Tests successive worlds of an elastic job: losses, growth, drain, pauses and broken connections.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ElasticWorld : public testing::Test {
 protected:
  // Starts a world of `workers` workers and commits a step.
  void Run(int workers, int min_replicas = 1, int slots = 1, const ExitCodeRules& exit_codes = {}) {
    CoordinatorOptions options = World::Options(slots, true);
    options.exit_codes = exit_codes;
    world = std::make_unique<World>(options);
    everyone.clear();
    for (int i = 0; i < workers; ++i) everyone.push_back(i);
    world->Order(everyone, workers, min_replicas);
    for (const int worker : everyone) world->Arrive(worker);
    world->AttachAll();
    ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
    world->Commit(0, 10);
    world->actions.clear();
  }
  // Ends the second of two ranks, lets its slot cool down, and adds its new process to the world.
  void EndAndComeBack(int exit_code, int signal, int time) {
    world->Exit(1, exit_code, signal, 0, {"a", "b", "c", "out of luck"});
    world->Accept({0, 1});
    CoolDown();
    world->Reload(1, "start " + std::to_string(time));
    world->AllAtBoundary(20 + time);
    world->Accept({0, 1});
    ASSERT_EQ(world->Members().size(), 2U) << time;
  }
  void KillTheOnlyRankWhileItLoads() {
    world = std::make_unique<World>();
    world->loads = false;
    world->Order({0});
    world->Arrive(0);
    world->starts[{0, 0}] = "a";
    world->Exit(0, 0, 9);
    world->AttachAll();
  }
  // Advances the clock by more than the longest cooldown of a slot.
  void CoolDown() {
    world->now += 61s;
    world->Pass(100ms, everyone);
  }
  // Makes these ranks report that they cannot continue, without naming a lost peer.
  void Say(const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      const int worker = world->Members().at(static_cast<std::size_t>(rank));
      world->Say(worker, control::RankBroken{world->membership.epoch(), rank, -1, "no keys"});
    }
  }
  void Break(const std::vector<int>& ranks) {
    Say(ranks);
    for (int i = 0; i < 26 && world->phase() == LauncherPhase::kRunning; ++i) {
      world->Pass(100ms, everyone);
    }
  }
  void BreakUntilGivenUp(const std::vector<int>& ranks) {
    const std::vector<int> all = world->Members();
    const int attempts = ranks.size() == all.size() ? 4 : 3;  // the first attempt does not wait
    for (int i = 0; i < attempts; ++i) {
      Break(ranks);
      world->Accept(everyone);
      ASSERT_EQ(world->Members(), all) << i;
    }
    Break(ranks);
  }
  control::LauncherStatus Status() const { return world->membership.Status(world->now); }
  control::WorkerReport ReportOf(int worker) const {
    for (const control::WorkerReport& report : Status().workers) {
      if (report.pod_uid == World::Uid(worker)) return report;
    }
    ADD_FAILURE() << "no report of worker " << worker;
    return {};
  }

  std::unique_ptr<World> world;
  std::vector<int> everyone;
};

TEST_F(ElasticWorld, NamesTheProcessesThatHadLoaded) {
  world = std::make_unique<World>();
  world->loads = false;
  world->Order({0, 1});
  world->Arrive(0);
  world->Arrive(1);
  world->AttachAll();
  world->Reload(1, "b");
  EXPECT_EQ(world->phase(), LauncherPhase::kStarting);
  EXPECT_THAT(Status().message, HasSubstr("load"));
  world->Pass(120s, {0, 1});  // loading data may take a long time
  EXPECT_FALSE(world->Decided());

  world->Reload(0, "a");

  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->membership.members()[0].start, "a");
  EXPECT_EQ(world->membership.members()[1].start, "b");
}

TEST_F(ElasticWorld, ARankThatFailsWhileItLoadsFailsTheFirstStart) {
  world = std::make_unique<World>();
  world->loads = false;
  world->Order({0, 1});
  world->Arrive(0);
  world->Arrive(1);
  control::RankExited exited;
  exited.exit.start = "a";
  exited.exit.exit_code = 2;
  exited.exit.last_lines = {"the data is not valid"};
  world->Say(1, exited);
  world->Pass(1s, {0, 1});

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "UserError");
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("the data is not valid"));
  ASSERT_EQ(Status().failures.size(), 1U);
  EXPECT_EQ(Status().failures[0].rank, 1);
}

TEST_F(ElasticWorld, ARankKilledWhileItLoadsIsWaitedFor) {
  KillTheOnlyRankWhileItLoads();
  world->Pass(5s, {0});
  EXPECT_FALSE(world->Decided());

  world->Reload(0, "b");

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
}

TEST_F(ElasticWorld, ARankThatNeverComesBackFailsTheStart) {
  // The time limit starts when the rank ends and does not depend on how long the rank ran.
  for (const auto lived : {0s, 200s}) {
    world = std::make_unique<World>();
    world->loads = false;
    world->Order({0});
    world->Arrive(0);
    world->AttachAll();
    world->starts[{0, 0}] = "a";
    world->Pass(lived, {0});
    world->Exit(0, 0, 9);
    world->Pass(300s + 200ms, {0});
    EXPECT_FALSE(world->Decided());

    world->Pass(100ms, {0});

    ASSERT_TRUE(world->Decided());
    EXPECT_EQ(world->Verdict()->verdict.reason, "RankFailed");
    EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("killed by signal 9"));
  }
}

TEST_F(ElasticWorld, ARepairedDeathIsNoNewsAfterARedial) {
  world = std::make_unique<World>();
  world->loads = false;
  world->Order({0, 1});
  world->Dial(0);
  world->starts[{0, 0}] = "a";
  world->Exit(0, 1);
  world->Ready(0);
  world->Reload(0, "b");
  world->Arrive(1);
  ASSERT_EQ(world->phase(), LauncherPhase::kStarting);
  world->AttachAll();
  world->Close(0);
  world->Dial(0, 901);
  world->Pass(2s, {0, 1});
  EXPECT_FALSE(world->Decided());
  world->Reload(0, "b");
  world->Reload(1, "c");

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
}

TEST_F(ElasticWorld, NoExitIsJudgedBeforeTheAgentHasRepeatedItsReports) {
  world = std::make_unique<World>();
  world->loads = false;
  world->Order({0});
  world->Dial(0);
  world->starts[{0, 0}] = "a";
  world->Exit(0, 1);
  world->Ready(0);
  ASSERT_EQ(world->phase(), LauncherPhase::kStarting);
  world->Pass(1s, {});
  EXPECT_FALSE(world->Decided());

  world->Pass(1s, {0});

  EXPECT_TRUE(world->Decided());
}

TEST_F(ElasticWorld, AFailureThatCostOneStartDoesNotHauntTheNext) {
  world = std::make_unique<World>();
  world->loads = false;
  world->Order({0, 1}, 2, 1);
  world->Arrive(0);
  world->Arrive(1);
  world->Pass(100ms, {0, 1});
  world->starts[{1, 0}] = "a";
  world->Exit(1, 1);
  world->DeclareDead({1}, {0, 2}, 2, 1);
  world->MpirunEnds(143);
  world->loads = true;
  world->Ready(0);
  world->Arrive(2);
  world->AttachAll();
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);

  world->Exit(2, 0, 9);

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
}

TEST_F(ElasticWorld, SendsTheDifferenceToAgentsThatHaveThePreviousWorld) {
  Run(3);
  world->Exit(1, 0, 9);
  world->Accept({0, 2});
  EXPECT_EQ(world->Sent<control::ChangeEpoch>(0), 1);
  EXPECT_EQ(world->Sent<control::ChangeEpoch>(2), 1);

  world->Reload(1, "second");
  world->Pass(2s, {0, 1, 2});
  world->AllAtBoundary(7);
  world->Accept({0, 1, 2});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0, 2, 1));
  EXPECT_EQ(world->Sent<control::ChangeEpoch>(0), 2);
  EXPECT_EQ(world->Sent<control::ChangeEpoch>(1), 0);  // the joiner gets a full StartEpoch
  EXPECT_EQ(world->Sent<control::StartEpoch>(1), 1);
}

TEST_F(ElasticWorld, SendsTheFullWorldSize) {
  Run(3, 1, 2);
  const auto full_size = [&] {
    int size = -1;
    for (const SendTo& send : world->All<SendTo>()) {
      if (const auto* start = std::get_if<control::StartEpoch>(&send.message))
        size = start->full_size;
      if (const auto* change = std::get_if<control::ChangeEpoch>(&send.message))
        size = change->full_size;
    }
    return size;
  };
  world->Exit(1, 0, 9);
  world->Accept({0, 1, 2});
  EXPECT_EQ(full_size(), 6) << "the lost one is wanted back";

  world->Order({0, 1, 2}, 4, 1);
  world->Exit(0, 0, 9);
  world->Accept({0, 1, 2});
  EXPECT_EQ(full_size(), 8) << "the job has been scaled";
}

TEST_F(ElasticWorld, ContinuesWithTheSurvivorsOfAKilledRank) {
  Run(3);
  const control::Epoch before = world->membership.epoch();
  world->Exit(1, 0, 9);
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  EXPECT_GT(world->Prepared(), before);
  EXPECT_EQ(world->Sent<control::StartEpoch>(), 0);
  world->Accept({0});
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);

  world->Accept({2});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->membership.epoch(), world->Prepared());
  EXPECT_THAT(world->Members(), ElementsAre(0, 2));
  EXPECT_EQ(world->Sent<control::StartEpoch>(0), 1);
  EXPECT_EQ(world->Sent<control::StartEpoch>(1), 0);
  EXPECT_TRUE(world->All<StopMpirun>().empty());
  EXPECT_TRUE(world->All<StartMpirun>().empty());
  EXPECT_FALSE(ReportOf(1).fenced);
}

TEST_F(ElasticWorld, ReportsWhatARecoveryTook) {
  Run(3);
  world->Pass(500ms, {0, 1, 2});
  world->Exit(1, 0, 9);
  world->Accept({0, 2});
  world->now += 40ms;
  EXPECT_FALSE(Status().last_recovery);

  world->Commit(0, 12);

  const auto recovery = Status().last_recovery;
  ASSERT_TRUE(recovery);
  EXPECT_EQ(recovery->cause, "RankKilled");
  EXPECT_EQ(recovery->pod, "digits-worker-1");
  EXPECT_EQ(recovery->node, "node-1");
  EXPECT_EQ(recovery->epoch, world->membership.epoch());
  EXPECT_EQ(recovery->detected_millis, 0);
  EXPECT_EQ(recovery->resumed_millis, 40);
  EXPECT_EQ(recovery->steps_lost, 0);
}

TEST_F(ElasticWorld, PreparesAHigherEpochAtOnceWhenItLosesAnotherWhileForming) {
  Run(4);
  world->Exit(1, 0, 9);
  const control::Epoch first = world->Prepared();
  world->Accept({0, 2});
  world->Exit(3, 0, 9);
  EXPECT_GT(world->Prepared(), first);
  world->Say(0, control::EpochAccepted{first});
  world->Say(2, control::EpochAccepted{first});
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);

  world->Accept({0, 2});

  EXPECT_THAT(world->Members(), ElementsAre(0, 2));
}

TEST_F(ElasticWorld, TakesARestartedRankBackAtABoundary) {
  Run(2);
  world->Exit(1, 0, 9);
  world->Accept({0, 1});
  world->Commit(0, 12);
  world->Reload(1, "second");
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(0), 1);
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  world->AllAtBoundary(13);
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);

  world->Accept({0, 1});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  EXPECT_EQ(world->membership.members()[1].start, "second");
}

struct LossCase {
  const char* what;
  void (*happen)(World&);
  const char* cause;
  bool known_dead;
};

class Losses : public ElasticWorld, public testing::WithParamInterface<LossCase> {};

// Tests each kind of loss with worker 2 of three.
TEST_P(Losses, AreSeenAndFenced) {
  const LossCase& c = GetParam();
  Run(3);
  world->Pass(100ms, {0, 1, 2});
  c.happen(*world);
  ASSERT_EQ(world->phase(), LauncherPhase::kForming) << c.what;
  world->Accept({0, 1});
  world->Commit(0, 11);

  EXPECT_THAT(world->Members(), ElementsAre(0, 1)) << c.what;
  EXPECT_EQ(Status().last_recovery->cause, c.cause) << c.what;
  EXPECT_EQ(Status().last_recovery->steps_lost, 0) << c.what;
  EXPECT_TRUE(ReportOf(2).fenced) << c.what;
  const auto refused = world->All<Refuse>().size();
  world->Dial(2, 902);
  EXPECT_EQ(world->All<Refuse>().size(), refused + 1) << c.what;
}

INSTANTIATE_TEST_SUITE_P(Table, Losses,
                         testing::Values(LossCase{"silence",
                                                  [](World& w) {
                                                    w.Pass(2200ms, {0, 1});
                                                  },
                                                  "Silence", false},
                                         LossCase{"no redial",
                                                  [](World& w) {
                                                    w.Close(2);
                                                    w.Pass(300ms, {0, 1});
                                                  },
                                                  "AgentLost", false},
                                         LossCase{"refused",
                                                  [](World& w) {
                                                    w.Close(2);
                                                    w.Take(w.membership.OnProbe(
                                                        w.now, World::Uid(2), true));
                                                  },
                                                  "AgentLost", true},
                                         LossCase{"dead by the operator's word",
                                                  [](World& w) {
                                                    w.DeclareDead({2}, {0, 1}, 3, 1);
                                                  },
                                                  "PodGone", true},
                                         LossCase{"unwanted and gone",
                                                  [](World& w) {
                                                    w.Order({0, 1}, 3, 1);
                                                    w.Close(2);
                                                  },
                                                  "AgentLeft", false}));

TEST_F(ElasticWorld, AsksThePortOfAWorkerWhoseConnectionBroke) {
  Run(3);
  world->Close(1);

  ASSERT_EQ(world->All<Probe>().size(), 1U);
  EXPECT_EQ(world->All<Probe>()[0].pod_uid, "uid-1");
  EXPECT_EQ(world->All<Probe>()[0].address, "10.0.0.2");
  EXPECT_EQ(world->All<Probe>()[0].port, 2201);
}

TEST_F(ElasticWorld, APortThatDoesNotRefuseProvesNothing) {
  Run(3);
  world->Close(1);
  world->Take(world->membership.OnProbe(world->now, World::Uid(1), false));
  world->Dial(1, 901);

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->Sent<control::StartEpoch>(1), 1);  // sent again, because the first may be lost
}

TEST_F(ElasticWorld, APortRefusedBeforeARedialIsOldNews) {
  Run(3);
  world->Close(1);
  world->Dial(1, 901);
  world->Take(world->membership.OnProbe(world->now, World::Uid(1), true));

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
}

// For example, the worker has too many processes to start sshd again.
TEST_F(ElasticWorld, APortIsNotAskedIfItsSshdDoesNotKeepRunning) {
  Run(3);
  world->Ready(1, {{control::kCheckSshdStart, "the machine cannot start \"sshd\" now"}});

  world->Close(1);

  EXPECT_THAT(world->All<Probe>(), testing::IsEmpty());
}

TEST_F(ElasticWorld, FullRestartWhenAllMembersDied) {
  Run(2);
  world->Exit(0, 0, 9);
  world->Exit(1, 0, 9);
  world->MpirunEnds(1);
  EXPECT_EQ(world->phase(), LauncherPhase::kStarting);  // another mpirun starts
  ASSERT_EQ(world->All<StartMpirun>().size(), 1U);
  world->Reload(0, "again");
  world->Reload(1, "again");
  world->AttachAll();

  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  world->Commit(0, 1);
  EXPECT_EQ(Status().last_recovery->steps_lost, 10);
  EXPECT_FALSE(world->Decided());
}

TEST_F(ElasticWorld, ExitTwoFailsTheJob) {
  Run(3);
  world->Exit(0, 75);
  world->Exit(1, 2, 0, 0, {"no such flag"});
  world->Pass(1s, {0, 1, 2});

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "UserError");
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("rank 1"));
  EXPECT_EQ(world->Verdict()->exit_code, 2);
}

TEST_F(ElasticWorld, OtherCodesCountUntilTheLimit) {
  Run(2);
  for (int i = 0; i < 10; ++i) ASSERT_NO_FATAL_FAILURE(EndAndComeBack(3, 0, i));
  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(Status().failures.size(), 10U);
  EXPECT_EQ(Status().failures.back().last_lines.size(), 3U);

  world->Exit(1, 3, 0, 0, {"out of luck"});
  world->Pass(1s, {0, 1});

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "RankFailed");
  EXPECT_EQ(world->Verdict()->exit_code, 3);
}

TEST_F(ElasticWorld, ACodeThatTheUserNamesFailsTheJobAtOnce) {
  Run(3, 1, 1, {.fail = {41}, .ignored = {}});
  world->Exit(0, 3);
  world->Exit(1, 41, 0, 0, {"the licence is over"});
  world->Pass(1s, {0, 1, 2});

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "RankFailed");
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("rank 1"));
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("failOnExitCodes"));
  EXPECT_EQ(world->Verdict()->exit_code, 41);
}

TEST_F(ElasticWorld, CodesThatTheUserIgnoresNeverCount) {
  Run(2, 1, 1, {.fail = {}, .ignored = {77}});
  for (int i = 0; i < 12; ++i) ASSERT_NO_FATAL_FAILURE(EndAndComeBack(77, 0, i));

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(Status().failures.size(), 12U);
}

TEST_F(ElasticWorld, SignalsWithStepsInBetweenNeverFailTheJobAndTheNewestSixteenAreReported) {
  Run(2);
  for (int i = 0; i < 30; ++i) ASSERT_NO_FATAL_FAILURE(EndAndComeBack(0, 9, i));

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(Status().failures.size(), 16U);
}

TEST_F(ElasticWorld, ASlotThatCrashedTwiceCoolsDown) {
  Run(2);
  for (const char* start : {"b", "c"}) {
    world->Exit(1, 0, 9);
    world->Accept({0, 1});
    world->Reload(1, start);
    if (std::string(start) == "c") break;
    world->AllAtBoundary(20);
    world->Accept({0, 1});
  }
  world->Pass(900ms, {0, 1});
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(0), 1);  // only for "b"

  world->Pass(100ms, {0, 1});

  EXPECT_EQ(world->Sent<control::SwitchEpoch>(0), 2);
}

TEST_F(ElasticWorld, AnotherProcessInTheSlotIsTheMembersEnd) {
  Run(3);
  world->Close(1);
  world->Dial(1, 901);
  world->starts[{1, 0}] = "third";  // the launcher missed the ends of two processes
  world->Ready(1);

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  world->Accept({0, 1, 2});
  EXPECT_THAT(world->Members(), ElementsAre(0, 2, 1));
  EXPECT_EQ(world->membership.members()[2].start, "third");
  world->Commit(0, 11);
  EXPECT_EQ(Status().last_recovery->cause, "RankReplaced");
}

TEST_F(ElasticWorld, ARepeatedExitCountsOnce) {
  Run(3);
  world->Exit(1, 3);
  world->Accept({0, 2});
  world->Exit(1, 3);

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(Status().failures.size(), 1U);
}

// The agent repeats the exit of the member, and has reported that of its successor only once.
TEST_F(ElasticWorld, ARepeatedExitOfAMemberWhoseSuccessorHasEndedCountsOnce) {
  Run(3);
  world->Reload(1, "first-1");
  world->AllAtBoundary(20);
  world->Accept(everyone);
  world->Commit(0, 21);
  ASSERT_THAT(world->Members(), ElementsAre(0, 2, 1));
  world->Exit(1, 3);
  world->Accept({0, 2});
  world->starts[{1, 0}] = "first-2";
  world->Exit(1, 3);
  EXPECT_EQ(Status().crashes, 1);
  world->Close(1);
  world->now += 50ms;
  world->Dial(1, 901);
  world->starts[{1, 0}] = "first-1";
  world->Exit(1, 3);

  EXPECT_EQ(Status().failures.size(), 2U);
  EXPECT_EQ(Status().failures.back().start, "first-2");
  world->starts[{1, 0}] = "first-10";
  world->Exit(1, 3);
  EXPECT_EQ(Status().failures.size(), 3U) << "another process has ended";
}

TEST_F(ElasticWorld, PausesBelowMinReplicasAndResumesWithAJoiner) {
  Run(2, 2);
  world->DeclareDead({1}, {0, 2}, 2, 2);
  EXPECT_EQ(world->phase(), LauncherPhase::kPaused);
  EXPECT_EQ(Status().pause_reason, "BelowMinReplicas");
  EXPECT_THAT(Status().message, HasSubstr("1 of at least 2 workers"));
  EXPECT_EQ(world->Sent<control::PrepareEpoch>(0), 1);  // rank 0 leaves the world and waits
  world->Accept({0});
  world->Pass(5s, {0});
  EXPECT_EQ(world->Sent<control::StartEpoch>(), 0);

  world->Arrive(2);
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  world->Accept({0, 2});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0, 2));
  EXPECT_EQ(Status().pause_reason, "");
}

TEST_F(ElasticWorld, APauseReportsWhatIsMissing) {
  Run(2, 2);
  world->loads = false;
  world->DeclareDead({1}, {0}, 2, 2);
  EXPECT_THAT(Status().message, HasSubstr("; the others do not have a Pod yet"));

  world->Order({0, 2}, 2, 2);
  EXPECT_THAT(Status().message, HasSubstr("; digits-worker-2 (node-2) has not connected"));

  world->Arrive(2);
  EXPECT_THAT(Status().message, HasSubstr("; all others are loading"));
}

TEST_F(ElasticWorld, PausesWhileAllAreSilentAndEndsOnceAllAreDead) {
  Run(2);
  world->Pass(5s, {});
  EXPECT_EQ(world->phase(), LauncherPhase::kPaused);
  EXPECT_EQ(Status().pause_reason, "NoQuorum");
  EXPECT_TRUE(world->All<StopMpirun>().empty());

  world->DeclareDead({0, 1}, {2, 3}, 2, 1);

  EXPECT_NE(world->phase(), LauncherPhase::kPaused);
  EXPECT_FALSE(world->All<StopMpirun>().empty());
}

TEST_F(ElasticWorld, PausesWithoutAQuorumUntilTheOrderNamesTheDead) {
  Run(4);
  world->Pass(2200ms, {0});
  EXPECT_EQ(world->phase(), LauncherPhase::kPaused);
  EXPECT_EQ(Status().pause_reason, "NoQuorum");
  EXPECT_THAT(Status().message,
              HasSubstr("waiting for digits-worker-1 (node-1), digits-worker-2 (node-2), "
                        "digits-worker-3 (node-3) to return"));
  EXPECT_EQ(world->Sent<control::PrepareEpoch>(), 0);
  EXPECT_FALSE(ReportOf(1).fenced);  // worker 1 may come back

  world->DeclareDead({1}, {0, 2, 3}, 4, 1);
  EXPECT_THAT(Status().message, HasSubstr("waiting for digits-worker-2 (node-2), digits-worker-3 "
                                          "(node-3) to return"));
  world->DeclareDead({1, 2}, {0, 3}, 4, 1);
  world->Accept({0});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);  // half is enough for the world's launcher
  EXPECT_THAT(world->Members(), ElementsAre(0));
}

TEST_F(ElasticWorld, NamesAFewOfManyWorkersThatAPauseWaitsFor) {
  Run(30);
  world->Pass(2200ms, {0});

  EXPECT_THAT(Status().message,
              HasSubstr("waiting for digits-worker-1 (node-1), digits-worker-10 (node-10), "));
  EXPECT_THAT(Status().message, HasSubstr(", digits-worker-13 (node-13) and 24 more to return"));
}

TEST_F(ElasticWorld, PausesWithoutAQuorumUntilAMemberReturns) {
  Run(3);
  world->Pass(2200ms, {0});
  ASSERT_EQ(Status().pause_reason, "NoQuorum");
  world->Dial(2, 902);
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  world->Accept({0, 2});

  EXPECT_THAT(world->Members(), ElementsAre(0, 2));
  EXPECT_TRUE(ReportOf(1).fenced);
}

TEST_F(ElasticWorld, HalfIsEnoughForTheLauncherThatFormedTheWorld) {
  Run(2);
  world->Pass(2200ms, {0});
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  world->Accept({0});

  EXPECT_THAT(world->Members(), ElementsAre(0));
}

TEST_F(ElasticWorld, DoesNotContinueWithoutTheOnlyMemberThatHasTheState) {
  Run(1);
  world->Order({0, 1}, 2, 1);
  world->Arrive(1);
  world->AllAtBoundary(11);
  world->Accept({0, 1});
  ASSERT_THAT(world->Members(), ElementsAre(0, 1));
  world->Pass(2200ms, {1});  // no step is committed, so the joiner has no state
  EXPECT_EQ(Status().pause_reason, "NoQuorum");

  world->Dial(0, 900);
  world->Accept({0, 1});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
}

TEST_F(ElasticWorld, GrowsAtABoundaryWhenAllWantedHaveLoaded) {
  Run(2);
  world->Order({0, 1, 2, 3}, 4, 1);
  world->Arrive(3);
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);
  world->loads = false;
  world->Arrive(2);
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);
  world->Reload(2, "x");
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 2);
  EXPECT_EQ(world->Sent<control::PrepareEpoch>(), 0);
  world->AllAtBoundary(30);
  EXPECT_EQ(world->Sent<control::PrepareEpoch>(), 4);

  world->Accept({0, 1, 2, 3});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(Status().last_recovery);
}

TEST_F(ElasticWorld, KeepsJoinersWaitingForASecondAtMost) {
  Run(1);
  world->Order({0, 1, 2}, 3, 1);
  world->Arrive(1);
  world->Pass(900ms, {0, 1});
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);

  world->Pass(100ms, {0, 1});

  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 1);
}

TEST_F(ElasticWorld, AJoinerWaitsForTheOthersFromWhenItHasLoaded) {
  Run(1);
  world->Order({0, 1, 2, 3}, 4, 1);
  world->loads = false;
  world->Arrive(1);
  world->Pass(5s, {0, 1});
  world->Reload(1, "a");
  world->Pass(500ms, {0, 1});
  world->Say(1, control::RankReady{0, "a"});  // the agent repeats its report
  world->loads = true;
  world->Arrive(2);  // a later joiner does not extend the wait of the first
  world->Pass(400ms, {0, 1, 2});
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);

  world->Pass(100ms, {0, 1, 2});

  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 1);
}

// Tests a job without minReplicas that is scaled from 2 to 4: its minimum becomes 4 immediately.
TEST_F(ElasticWorld, TrainsOnUntilJoinersMakeUpAMinimumThatHasRisen) {
  Run(2);
  world->Order({0, 1, 2, 3}, 4, 4);
  world->Arrive(2);
  world->Pass(30s, {0, 1, 2});
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);

  world->Arrive(3);
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 2);
  world->AllAtBoundary(30);
  world->Accept({0, 1, 2, 3});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 2, 3));
}

TEST_F(ElasticWorld, AJoinerThatCannotLoadCostsTheJobNothing) {
  Run(2);
  world->loads = false;
  world->Order({0, 1, 2}, 3, 1);
  world->Arrive(2);
  control::RankExited exited;
  exited.exit.start = "a";
  exited.exit.exit_code = 2;
  exited.exit.last_lines = {"its volume is broken"};
  world->Say(2, exited);
  world->Pass(5s, {0, 1, 2});

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(Status().failures.back().last_lines, ElementsAre("its volume is broken"));
  EXPECT_EQ(Status().failures.back().rank, -1);
}

TEST_F(ElasticWorld, AJoinerThatVanishesWhileItConnectsIsExcluded) {
  Run(2);
  world->Order({0, 1, 2}, 3, 1);
  world->Arrive(2);
  world->AllAtBoundary(30);
  world->Accept({0, 1});
  world->Close(2);
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  world->Accept({0, 1});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  EXPECT_FALSE(ReportOf(2).fenced);
}

TEST_F(ElasticWorld, AJoinerThatDoesNotAnswerIsExcluded) {
  Run(2);
  world->Order({0, 1, 2}, 3, 1);
  world->Arrive(2);
  world->AllAtBoundary(30);
  world->Accept({0, 1});
  const control::Epoch asked = world->Prepared();
  world->Pass(2s, {0, 1, 2});
  EXPECT_EQ(world->Prepared(), asked);
  world->Pass(100ms, {0, 1, 2});
  EXPECT_GT(world->Prepared(), asked);
  world->Accept({0, 1});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  world->Commit(0, 31);
  EXPECT_FALSE(Status().last_recovery) << "it was not a member";
}

TEST_F(ElasticWorld, AMemberThatHasAcceptedMayRedialMeanwhile) {
  Run(3);
  world->Exit(2, 0, 9);
  world->Accept({0});
  world->Close(0);
  world->Accept({1});
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);

  world->Dial(0, 900);

  EXPECT_EQ(world->Sent<control::StartEpoch>(0), 1);
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  EXPECT_TRUE(world->All<Refuse>().empty());
}

TEST_F(ElasticWorld, AMemberThatDoesNotAnswerIsLost) {
  Run(3);
  world->Order({0, 1, 2, 3}, 4, 1);
  world->Arrive(3);
  world->AllAtBoundary(30);
  world->Accept({0, 1, 3});
  world->Pass(1s, {0, 1, 2, 3});
  world->Dial(2, 902);  // PrepareEpoch may have been lost
  world->Ready(2);
  const control::Epoch asked = world->Prepared();
  world->Pass(2s, {0, 1, 2, 3});
  EXPECT_EQ(world->Prepared(), asked);
  world->Pass(100ms, {0, 1, 2, 3});
  EXPECT_GT(world->Prepared(), asked);
  world->Accept({0, 1, 3});
  world->Commit(0, 31);

  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 3));
  EXPECT_EQ(Status().last_recovery->cause, "NoAnswer");
  EXPECT_EQ(Status().last_recovery->pod, "digits-worker-2");
}

TEST_F(ElasticWorld, AJoinerThatNeverAnswersIsAskedMoreAndMoreSeldom) {
  Run(1);
  world->Order({0, 1}, 2, 1);
  for (const auto pause : {0ms, 0ms, 1000ms, 2000ms}) {
    const int switches = world->Sent<control::SwitchEpoch>(0);
    world->Dial(1);
    world->Ready(1);
    if (pause > 0ms) {
      world->Pass(pause - 100ms, {0, 1});
      EXPECT_EQ(world->Sent<control::SwitchEpoch>(0), switches) << pause.count();
      world->Pass(100ms, {0, 1});
    }
    ASSERT_EQ(world->Sent<control::SwitchEpoch>(0), switches + 1) << pause.count();
    world->AllAtBoundary(30);
    world->Accept({0});
    world->Pass(2100ms, {0, 1});
    world->Accept({0});
    ASSERT_THAT(world->Members(), ElementsAre(0));
  }
}

TEST_F(ElasticWorld, ALossDuringASwitchIsALoss) {
  Run(3);
  world->Order({0, 1, 2, 3}, 4, 1);
  world->Arrive(3);
  ASSERT_EQ(world->Sent<control::SwitchEpoch>(0), 1);
  world->Exit(1, 0, 9);
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  world->Accept({0, 2, 3});

  EXPECT_THAT(world->Members(), ElementsAre(0, 2, 3));
}

TEST_F(ElasticWorld, ALostBoundaryReportDelaysTheChangeOnlyBriefly) {
  Run(2);
  world->Order({0, 1, 2}, 3, 1);
  world->Arrive(2);
  world->Say(0, control::RankAtBoundary{world->membership.epoch(), 0, 30});
  world->Pass(2500ms, {0, 1, 2});
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);

  world->Pass(100ms, {0, 1, 2});

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
}

TEST_F(ElasticWorld, ALeaverIsDrainedOnceTheNextWorldRunsAndItsRankHasEnded) {
  Run(3);
  world->Order({0, 1}, 2, 1);
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(2), 1);
  EXPECT_FALSE(ReportOf(2).drained);
  world->AllAtBoundary(30);
  EXPECT_EQ(world->Sent<control::PrepareEpoch>(2), 1);  // the leaver must accept, too
  world->Accept({0, 1});
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  EXPECT_EQ(world->Sent<control::StopEpoch>(2), 1);
  EXPECT_EQ(world->Sent<control::StopEpoch>(0), 0);
  EXPECT_FALSE(ReportOf(2).drained);

  world->Exit(2, 0, 15);

  EXPECT_TRUE(ReportOf(2).drained);
  EXPECT_FALSE(ReportOf(2).fenced);
  EXPECT_THAT(Status().failures, IsEmpty());
  EXPECT_FALSE(Status().last_recovery);
}

TEST_F(ElasticWorld, ALeaverWhoseConnectionIsLostIsDrained) {
  Run(3);
  world->Say(2, control::AgentLeaving{"SIGTERM"});
  world->AllAtBoundary(30);
  world->Accept({0, 1});
  world->Close(2);

  EXPECT_TRUE(ReportOf(2).drained);
}

TEST_F(ElasticWorld, NoWorkerIsBlamedForTheRanksOfALeaver) {
  Run(3);
  world->Say(2, control::AgentLeaving{"SIGTERM"});
  world->Exit(2, 1);

  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  EXPECT_THAT(Status().failures, IsEmpty());
}

// A Pod is deleted, evicted or drained with its node. The agent or operator reports this first.
TEST_F(ElasticWorld, WhoLeavesInOrderIsALossWithItsNameUnlessFewerAreWanted) {
  for (const bool told_by_agent : {true, false}) {
    Run(3);
    world->Commit(0, 20);
    if (told_by_agent) {
      world->Say(2, control::AgentLeaving{"SIGTERM"});
    } else {
      world->Order({0, 1}, 3, 1);
    }
    world->Pass(200ms, {0, 1, 2});
    world->AllAtBoundary(30);
    world->Accept({0, 1});
    EXPECT_FALSE(Status().last_recovery);
    world->Commit(0, 31);

    ASSERT_TRUE(Status().last_recovery) << told_by_agent;
    EXPECT_EQ(Status().last_recovery->cause, "Left");
    EXPECT_EQ(Status().last_recovery->pod, "digits-worker-2");
    EXPECT_EQ(Status().last_recovery->node, "node-2");
    EXPECT_EQ(Status().last_recovery->detected_millis, 0);
    EXPECT_EQ(Status().last_recovery->resumed_millis, 200);
    EXPECT_EQ(Status().last_recovery->steps_lost, 0);
    EXPECT_FALSE(Status().last_recovery->from_start);
  }
}

TEST_F(ElasticWorld, WhoLeavesInOrderIsLoggedOnce) {
  Run(3);
  InitLog("test", "warn", LogFormat::kText);
  testing::internal::CaptureStderr();
  world->Say(2, control::AgentLeaving{"SIGTERM"});
  world->AllAtBoundary(30);
  world->Accept({0, 1});
  const std::string log = testing::internal::GetCapturedStderr();
  InitLog("test", "off", LogFormat::kText);

  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  EXPECT_THAT(log, HasSubstr("Lost a member"));
  EXPECT_EQ(log.find("Lost a member"), log.rfind("Lost a member"));
}

TEST_F(ElasticWorld, ShrinksFromFourToOne) {
  Run(4);
  world->Order({2}, 1, 1);
  world->AllAtBoundary(30);
  world->Accept({2});
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);  // the leavers must accept, too

  world->Accept({0, 1});

  EXPECT_THAT(world->Members(), ElementsAre(2));
}

TEST_F(ElasticWorld, LeaversStayUntilAnotherMemberHasTheState) {
  Run(1);
  world->Order({1}, 1, 1);
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);
  world->Arrive(1);
  world->AllAtBoundary(11);
  world->Accept({0, 1});
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  world->Commit(0, 12);
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(0), 2);
  world->AllAtBoundary(13);

  world->Accept({0, 1});

  EXPECT_THAT(world->Members(), ElementsAre(1));
  EXPECT_EQ(world->Sent<control::StopEpoch>(0), 1);
}

TEST_F(ElasticWorld, ALeaverStaysOverALossAndLeavesAtTheNextBoundary) {
  Run(3);
  world->Order({0, 1}, 2, 1);
  world->Exit(1, 0, 9);
  world->Accept({0, 2});
  EXPECT_THAT(world->Members(), ElementsAre(0, 2));
  world->Commit(0, 12);
  world->AllAtBoundary(13);

  world->Accept({0, 2});

  EXPECT_THAT(world->Members(), ElementsAre(0));
}

// Tests a loss after which the only rank that stays hangs. The new world never completes a step.
TEST_F(ElasticWorld, ALeaverHasTheStateWhenWhoStaysEndsAfterALoss) {
  Run(3);
  world->Order({0, 1}, 2, 1);
  world->Exit(1, 0, 9);
  world->Accept({0, 2});
  world->Exit(0, 0, 9);

  world->Accept({0, 2});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(2));
}

TEST_F(ElasticWorld, ALossWhileALeaverLeavesDoesNotKeepIt) {
  Run(3);
  world->Order({0, 1}, 2, 1);
  world->AllAtBoundary(30);
  ASSERT_EQ(world->phase(), LauncherPhase::kForming);
  world->Exit(1, 0, 9);

  world->Accept({0, 2});

  EXPECT_THAT(world->Members(), ElementsAre(0));
}

TEST_F(ElasticWorld, NoWorkersWantedEndsTheWorld) {
  Run(2);
  world->Order({}, 0, 0);

  EXPECT_EQ(world->phase(), LauncherPhase::kStopping);
  EXPECT_EQ(world->Sent<control::StopEpoch>(), 2);
  EXPECT_FALSE(ReportOf(0).drained);
}

// The operator deletes the Pods of a suspended job only after their workers are drained.
TEST_F(ElasticWorld, WorkersThatAreNotWantedAreDrainedWhenTheirRanksHaveEnded) {
  Run(2);
  world->Order({}, 0, 0);
  world->Exit(0, 0, 15);
  world->Exit(1, 0, 15);
  world->MpirunEnds(143);
  world->Reload(0, "again");  // worker 0's agent does not know that the job stops

  EXPECT_EQ(world->phase(), LauncherPhase::kWaitingForAgents);
  for (const int worker : {0, 1}) {
    EXPECT_TRUE(ReportOf(worker).drained) << worker;
    EXPECT_FALSE(ReportOf(worker).member) << worker;
  }
  world->Pass(60s, {0, 1});
  EXPECT_FALSE(world->Decided());
}

TEST_F(ElasticWorld, ReformsWithTheSameMembersWhenRanksLostEachOther) {
  Run(3);
  for (int i = 0; i < 3; ++i) {
    world->Say(0, control::RankBroken{world->membership.epoch(), 0, 2, "reset"});
    world->Pass(2400ms, {0, 1, 2});
    EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
    world->Pass(100ms, {0, 1, 2});
    EXPECT_EQ(world->phase(), LauncherPhase::kForming) << i;
    world->Accept({0, 1, 2});
    EXPECT_THAT(world->Members(), ElementsAre(0, 1, 2)) << i;
  }

  world->Say(0, control::RankBroken{world->membership.epoch(), 0, 2, "reset"});
  world->Say(1, control::RankBroken{world->membership.epoch(), 1, 2, "reset"});
  world->Pass(2600ms, {0, 1, 2});
  world->Accept({0, 1});
  world->Commit(0, 11);

  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  EXPECT_EQ(Status().last_recovery->cause, "CannotReachPeers");
  EXPECT_TRUE(ReportOf(2).fenced);
}

TEST_F(ElasticWorld, ReformsAtOnceWhenEachRankReportsABrokenWorld) {
  Run(3);
  Say({0, 1});
  world->Pass(2000ms, {0, 1, 2});
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning) << "rank 2 may be lost";
  Say({2});
  world->Pass(100ms, {0, 1, 2});
  EXPECT_EQ(world->phase(), LauncherPhase::kForming);
  world->Accept({0, 1, 2});
  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 2));

  Say({0, 1, 2});
  world->Pass(2400ms, {0, 1, 2});
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning) << "a second attempt gives the network time";
  world->Pass(100ms, {0, 1, 2});
  world->Accept({0, 1, 2});
  world->Commit(0, 11);
  Say({0, 1, 2});
  world->Pass(100ms, {0, 1, 2});
  EXPECT_EQ(world->phase(), LauncherPhase::kForming) << "after a step";
}

TEST_F(ElasticWorld, ExcludesTheSilentMinorityIfNoRankCanBeBlamed) {
  Run(3);
  BreakUntilGivenUp({0, 2});
  world->Accept({0, 2});
  world->Commit(0, 11);

  EXPECT_THAT(world->Members(), ElementsAre(0, 2));
  EXPECT_EQ(Status().last_recovery->cause, "Stalled");
  EXPECT_EQ(Status().last_recovery->pod, "digits-worker-1");
  ASSERT_EQ(Status().failures.size(), 1U);
  EXPECT_EQ(Status().failures[0].pod, "digits-worker-1");
  EXPECT_TRUE(ReportOf(1).fenced);
}

TEST_F(ElasticWorld, AWorkerWhoseRanksAreAllSilentIsLostOnce) {
  Run(3, 1, 2);
  BreakUntilGivenUp({0, 1, 4, 5});
  world->Accept({0, 2});

  EXPECT_THAT(world->Members(), ElementsAre(0, 0, 2, 2));
  EXPECT_EQ(Status().failures.size(), 1U);
}

TEST_F(ElasticWorld, NoWorkerIsExcludedIfItIsTheLastOne) {
  Run(2);
  BreakUntilGivenUp({0, 1});
  world->Accept({0});
  ASSERT_THAT(world->Members(), ElementsAre(0));
  Break({0});
  world->Accept({0});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0));
  EXPECT_FALSE(ReportOf(0).fenced);
}

TEST_F(ElasticWorld, TheOnlyWorkerWhoseRanksNeverConnectFailsTheJob) {
  Run(1, 1, 2);
  BreakUntilGivenUp({0, 1});
  for (int time = 1; time <= 4; ++time) {
    ASSERT_FALSE(world->Decided()) << time;
    EXPECT_EQ(Status().crashes, time);
    EXPECT_THAT(Status().message,
                HasSubstr("rank 0 on digits-worker-0 (node-0) could not continue: no keys"));
    ASSERT_EQ(Status().failures.size(), 1U);
    EXPECT_THAT(Status().failures[0].last_lines, testing::Contains(HasSubstr("no keys")));
    EXPECT_FALSE(ReportOf(0).fenced);
    world->Accept({0});
    ASSERT_THAT(world->Members(), ElementsAre(0, 0));
    Break({0, 1});
  }

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "CrashLoop");
  EXPECT_EQ(world->Verdict()->exit_code, 1);
  EXPECT_THAT(world->Verdict()->verdict.message,
              testing::AllOf(HasSubstr("no keys"), HasSubstr("5 times in a row"),
                             HasSubstr("runPolicy.restart.crashLimit")));
  ASSERT_TRUE(world->Verdict()->verdict.first_failure.has_value());
  EXPECT_EQ(world->Verdict()->verdict.first_failure->rank, 0);
}

TEST_F(ElasticWorld, NoWorkerIsExcludedForDataThatTheStoreRefused) {
  Run(3);
  const auto say_too_much = [&] {
    world->Say(1, control::StoreSet{world->membership.epoch(), "k", std::string(1 << 20, 'x')});
    world->Say(
        1, control::StoreGet{world->membership.epoch(), 7, 1, std::vector<std::string>(2000, "k")});
  };
  for (int i = 0; i < 4; ++i) {
    say_too_much();
    Break({0, 1, 2});
    world->Accept(everyone);
  }
  say_too_much();
  Break({0, 1, 2});
  world->Accept(everyone);

  EXPECT_EQ(world->Sent<control::StoreValues>(1), 5)
      << "a refused request gets an answer without values";
  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 2));
  EXPECT_THAT(Status().message, HasSubstr("could not continue: rank 1 requested more values"));
  EXPECT_EQ(Status().crashes, 1);
}

TEST_F(ElasticWorld, AStepEndsTheCountOfWorldsThatCouldNotContinue) {
  Run(1, 1, 2);
  BreakUntilGivenUp({0, 1});
  world->Accept({0});
  EXPECT_EQ(Status().crashes, 1);

  world->Commit(0, 11);

  EXPECT_EQ(Status().crashes, 0);
}

TEST_F(ElasticWorld, ExcludesTheYoungestIfAllReportTheSame) {
  Run(3);
  BreakUntilGivenUp({0, 1, 2});
  world->Accept({0, 1});
  world->Commit(0, 11);

  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  EXPECT_EQ(Status().last_recovery->cause, "CannotReachPeers");
  ASSERT_EQ(Status().failures.size(), 1U);
  EXPECT_THAT(Status().failures[0].last_lines, testing::Contains(HasSubstr("no keys")));
}

TEST_F(ElasticWorld, OnlyACommittedStepBuysNewAttempts) {
  Run(4);
  BreakUntilGivenUp({0, 1, 2, 3});
  world->Accept({0, 1, 2});
  ASSERT_THAT(world->Members(), ElementsAre(0, 1, 2));
  Break({0, 1, 2});
  world->Accept({0, 1});
  ASSERT_THAT(world->Members(), ElementsAre(0, 1));
  world->Commit(0, 11);
  Break({0, 1});
  world->Accept({0, 1});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
}

TEST_F(ElasticWorld, ABrokenRankWhosePeerIsLostIsNoNewsOfItsOwn) {
  Run(3);
  world->Say(0, control::RankBroken{world->membership.epoch(), 0, 2, "reset"});
  world->Pass(2200ms, {0, 1});
  world->Accept({0, 1});
  world->Pass(5s, {0, 1});

  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
}

TEST_F(ElasticWorld, ALossBeforeReleaseAsksTheRanksAgain) {
  Run(3);
  const control::Epoch before = world->membership.epoch();
  world->Say(0, control::RankDone{before, 0});
  world->Say(1, control::RankDone{before, 1});
  world->Exit(2, 0, 9);
  world->Accept({0, 1, 2});
  world->Say(0, control::RankDone{before, 0});
  EXPECT_EQ(world->Sent<control::Release>(), 0);

  world->Say(0, control::RankDone{world->membership.epoch(), 0});
  world->Say(1, control::RankDone{world->membership.epoch(), 1});

  EXPECT_EQ(world->Sent<control::Release>(), 2);
}

TEST_F(ElasticWorld, ARestartedAgentHasLostItsRanksAndMayComeBack) {
  Run(2);
  world->Dial(1, 901, "second nonce");
  world->Accept({0});
  EXPECT_THAT(world->Members(), ElementsAre(0));
  EXPECT_FALSE(ReportOf(1).fenced);
  world->Commit(0, 11);
  EXPECT_EQ(Status().last_recovery->cause, "AgentRestarted");
  world->starts.clear();
  world->starts[{1, 0}] = "again";
  world->Ready(1);
  world->AllAtBoundary(12);
  world->Accept({0, 1});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
}

TEST_F(ElasticWorld, ASlotOfALivingPodLeavesAndComesBackAlone) {
  Run(2, 1, 2);
  world->Exit(0, 0, 9, 1);
  world->Accept({0, 1});
  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 1));
  world->Reload(0, "again", 1);
  world->AllAtBoundary(20);
  world->Accept({0, 1});

  EXPECT_THAT(world->Members(), ElementsAre(0, 1, 1, 0));
}

TEST_F(ElasticWorld, AJoinerBringsAllOfItsSlots) {
  Run(1, 1, 2);
  world->Order({0, 1}, 2, 1);
  world->loads = false;
  world->Arrive(1);
  world->Reload(1, "a", 0);
  world->Pass(3s, {0, 1});
  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);

  world->Reload(1, "a", 1);

  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 1);
}

TEST_F(ElasticWorld, AJoinerOfAnotherBuildIsNotTakenIn) {
  Run(1);
  world->Order({0, 1}, 2, 1);
  world->Dial(1);
  world->Say(1, control::AgentReady{"10.0.0.9", 2200, {}, {{"openmpi", "5.0.7"}}});
  world->Reload(1, "a");
  world->Pass(3s, {0, 1});

  EXPECT_EQ(world->Sent<control::SwitchEpoch>(), 0);
  EXPECT_FALSE(world->Decided());
  ASSERT_FALSE(ReportOf(1).faults.empty());
  EXPECT_THAT(ReportOf(1).faults[0].message, HasSubstr("5.0.7"));
}

// The first member does not report its versions, so its build differs from the second member's.
TEST_F(ElasticWorld, AJoinerIsOfOneBuildWithEachMember) {
  using Versions = std::map<std::string, std::string>;
  Run(1);
  world->Say(0, control::AgentReady{"10.0.0.1", 2200, {}, {}});
  world->Order({0, 1, 2}, 3, 1);
  const auto join = [&](int worker, const std::string& ringmaster) {
    const Versions versions{{"openmpi", "4.1.4"}, {"ringmaster", ringmaster}};
    world->Dial(worker);
    world->Say(worker, control::AgentReady{"10.0.0.9", 2200, {}, versions});
    world->Reload(worker, "a");
    everyone.push_back(worker);
    world->Pass(3s, everyone);
    world->AllAtBoundary(20);
    world->Accept(everyone);
  };
  join(1, "0.1.0");
  ASSERT_THAT(world->Members(), ElementsAre(0, 1));
  join(2, "0.2.0");

  EXPECT_THAT(world->Members(), ElementsAre(0, 1));
  ASSERT_FALSE(ReportOf(2).faults.empty());
  EXPECT_THAT(ReportOf(2).faults[0].message, HasSubstr("0.2.0"));
}

TEST_F(ElasticWorld, ReportsWhatItWaitsFor) {
  world = std::make_unique<World>();
  world->loads = false;
  world->Order({0, 1}, 2, 1);
  for (const int worker : {0, 1}) world->Arrive(worker);
  EXPECT_EQ(Status().message, "waiting for mpirun: 0 of 2 processes are attached");
  world->AttachAll();
  EXPECT_EQ(Status().message, "waiting for the ranks to load their data and model");
  for (const int worker : {0, 1}) world->Reload(worker, "a");
  EXPECT_EQ(Status().message, "");
  world->Order({0, 1, 2}, 3, 1);
  world->Arrive(2);
  world->Reload(2, "a");
  EXPECT_EQ(Status().message, "waiting for the ranks to finish a step before the members change");
  world->AllAtBoundary(9);
  EXPECT_EQ(Status().message, "waiting for 3 workers to accept epoch 2");
  world->Accept({0, 1, 2});
  EXPECT_EQ(Status().message, "");
  world->Order({}, 0, 0);
  EXPECT_EQ(Status().message, "ending epoch 2: the job is scaled to zero workers");
}

TEST_F(ElasticWorld, PrintsOutputThatRanksSendOverTheChannel) {
  Run(1);
  world->Say(0, control::SlotOutput{0, 0, true, "hello\n"});

  ASSERT_EQ(world->All<Print>().size(), 1U);
  EXPECT_EQ(world->All<Print>()[0].data, "hello\n");
  EXPECT_EQ(world->All<Print>()[0].whose, "1,0");
  EXPECT_TRUE(world->All<Print>()[0].is_stderr);
}

TEST_F(ElasticWorld, PrintsTheOutputOfARankInNoWorldUnderItsPodsName) {
  Run(1);
  world->Say(0, control::SlotOutput{0, -1, true, "no data\n"});

  EXPECT_EQ(world->All<Print>().at(0).whose, "digits-worker-0/0");
}

TEST_F(ElasticWorld, LeavesItsRanksToTheNextLauncherWhenItIsAskedToEnd) {
  Run(2);
  world->Take(world->membership.OnTerminate(world->now));

  EXPECT_EQ(world->Sent<control::StopEpoch>(), 0);
  EXPECT_FALSE(world->Decided());
}

// A released rank may still save the model, so only the next launcher knows how it ends.
TEST_F(ElasticWorld, AReleasedJobIsASuccessWhenTheLauncherIsAskedToEndUnlessARankRuns) {
  for (const bool runs : {false, true}) {
    Run(2);
    for (const int rank : {0, 1}) {
      world->Say(rank, control::RankDone{world->membership.epoch(), rank});
    }
    ASSERT_EQ(world->Sent<control::Release>(), 2);
    world->Exit(0, 0);
    if (!runs) world->Close(1);
    world->Take(world->membership.OnTerminate(world->now));

    ASSERT_EQ(world->Decided(), !runs);
    EXPECT_EQ(world->Sent<control::Shutdown>(), runs ? 0 : 1);
    if (runs) continue;
    EXPECT_TRUE(world->Verdict()->verdict.succeeded);
    EXPECT_EQ(world->Verdict()->exit_code, 0);
  }
}

TEST_F(ElasticWorld, ASuccessWithoutAStepOfTheJobsOwnIsNamed) {
  Run(2);
  const control::Epoch epoch = world->membership.epoch();
  world->Say(0, control::RankBegan{epoch, 0, {500, "it started from step 500"}});
  for (const int rank : {0, 1}) {
    world->Say(rank, control::RankDone{.epoch = epoch, .rank = rank, .trained = rank != 0});
  }
  for (const int worker : {0, 1}) world->Exit(worker, 0);
  world->MpirunEnds(0);

  ASSERT_TRUE(world->Decided());
  EXPECT_TRUE(world->Verdict()->verdict.succeeded);
  EXPECT_EQ(world->Verdict()->verdict.reason, control::kReasonAlreadyComplete);
  ASSERT_TRUE(world->Verdict()->verdict.beginning.has_value());
  EXPECT_EQ(world->Verdict()->verdict.beginning->step, 500);
}

TEST_F(ElasticWorld, RankZeroReportsWhetherTheJobTrained) {
  Run(2);
  for (const int rank : {0, 1}) {
    world->Say(rank, control::RankDone{
                         .epoch = world->membership.epoch(), .rank = rank, .trained = rank == 0});
  }
  for (const int worker : {0, 1}) world->Exit(worker, 0);
  world->MpirunEnds(0);

  EXPECT_EQ(world->Verdict()->verdict.message, "all 2 ranks completed");
}

TEST_F(ElasticWorld, ReportsPodsThatAreNoLongerOrdered) {
  Run(2);
  world->Order({0, 1, 7}, 3, 1);
  world->Order({0, 1}, 2, 1);

  EXPECT_TRUE(ReportOf(7).drained);  // worker 7 was never a member
  world->Pass(61s, {0, 1});
  EXPECT_EQ(Status().workers.size(), 2U);
}

}  // namespace
}  // namespace ringmaster::launcher
