// Tests jobs whose ranks are killed repeatedly. If there is no progress between the kills, the job
// fails with the program's last lines in its verdict; otherwise it continues (crash_limit.h).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "common/control/exit_codes.h"
#include "common/control/exit_text.h"
#include "common/control/reasons.h"
#include "worker/launcher/model/crash_limit.h"
#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr control::OutOfMemory kOutOfMemory{64 << 20, 64 << 20};

TEST(CrashLimit, ARoundIsWhatDiesTogether) {
  CrashLimit limit(3);
  const Clock::Time start{1h};
  limit.Count(start, start - 60s, false);
  limit.Count(start + 20ms, start - 60s, false);  // same world
  limit.Count(start + 30ms, {}, false);           // unknown start time
  EXPECT_EQ(limit.count(), 1);

  limit.Count(start + 2s, start + 1s, true);
  EXPECT_FALSE(limit.Reached());
  limit.Count(start + 3s, start + 2s, false);

  EXPECT_EQ(limit.count(), 3);
  EXPECT_TRUE(limit.Reached());
  EXPECT_TRUE(limit.OutOfMemory());
}

TEST(CrashLimit, OnlyAStepThatWasNeverCommittedEndsTheRow) {
  CrashLimit limit(3);
  limit.Committed(100);
  limit.Count(Clock::Time{1h}, {}, true);
  limit.Committed(100);  // reported again by the next world
  limit.Committed(90);   // repeated after a roll-back
  EXPECT_EQ(limit.count(), 1);

  limit.Committed(101);

  EXPECT_EQ(limit.count(), 0);
  EXPECT_FALSE(limit.OutOfMemory());
}

TEST(CrashLimit, ZeroIsNone) {
  CrashLimit limit(0);
  Clock::Time now{1h};
  for (int i = 0; i < 100; ++i, now += 1s) limit.Count(now, now, true);
  EXPECT_EQ(limit.count(), 100);
  EXPECT_FALSE(limit.Reached());
}

class Crashes : public testing::Test {
 protected:
  static void SetUpTestSuite() { InitLog("crash_test", "off", LogFormat::kText); }

  void Run(int workers) {
    everyone.clear();
    for (int i = 0; i < workers; ++i) everyone.push_back(i);
    world->Order(everyone, workers, 1);
    for (const int worker : everyone) world->Arrive(worker);
    world->AttachAll();
    ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
    world->Pass(100ms, everyone);
    world->Commit(0, 10);
  }
  void Kill(int worker, const std::optional<control::OutOfMemory>& why = std::nullopt) {
    control::RankExited exited;
    exited.epoch = world->membership.epoch();
    if (world->options.elastic) exited.exit.start = world->starts[{worker, 0}];
    exited.exit.signal = 9;
    exited.exit.last_lines = {"allocating"};
    exited.exit.out_of_memory = why;
    world->Say(worker, exited);
  }
  // Kills the rank of worker 1 of two and lets it join again. No step is committed.
  void KillAndComeBack(int time, const std::optional<control::OutOfMemory>& why = std::nullopt) {
    Kill(1, why);
    if (world->Decided()) return;
    world->Accept({0});
    world->now += 61s;  // longer than the longest cooldown of a slot
    world->Pass(100ms, everyone);
    world->Reload(1, "start " + std::to_string(time));
    world->AllAtBoundary(10);
    world->Accept({0, 1});
    ASSERT_EQ(world->Members().size(), 2U) << time;
  }
  std::string Message() { return world->membership.Status(world->now).message; }

  std::unique_ptr<World> world = std::make_unique<World>();
  std::vector<int> everyone;
};

TEST_F(Crashes, TheFifthDeathWithoutAStepInBetweenEndsTheJob) {
  Run(2);
  for (int time = 1; time <= 4; ++time) {
    ASSERT_NO_FATAL_FAILURE(KillAndComeBack(time));
    EXPECT_EQ(world->membership.Status(world->now).crashes, time);
    EXPECT_THAT(Message(), HasSubstr(time == 1 ? "1 time without" : "in a row without"));
  }
  EXPECT_THAT(Message(), AllOf(HasSubstr("rank 1 on digits-worker-1 (node-1) was killed by signal "
                                         "9"),
                               HasSubstr("4 times in a row"), HasSubstr("fails at 5")));

  Kill(1);
  world->Pass(500ms, everyone);

  ASSERT_TRUE(world->Decided());
  const auto finish = world->Verdict();
  EXPECT_EQ(finish->verdict.reason, "CrashLoop");
  EXPECT_EQ(finish->exit_code, 137);
  EXPECT_THAT(finish->verdict.message,
              AllOf(HasSubstr("rank 1 on digits-worker-1 (node-1) was killed by signal 9"),
                    HasSubstr("last output: allocating"), HasSubstr("5 times in a row"),
                    HasSubstr("runPolicy.restart.crashLimit")));
  ASSERT_TRUE(finish->verdict.first_failure.has_value());
  EXPECT_EQ(finish->verdict.first_failure->signal, 9);
}

// The agent reports first how the rank ended, and then that the agent is leaving.
TEST_F(Crashes, AnUnhealthyDeviceExcludesItsPodAndCountsAsNoCrash) {
  auto options = World::Options(/*slots=*/2, /*elastic=*/true);
  options.restart_limit = 0;
  world = std::make_unique<World>(options);
  Run(3);

  world->Exit(2, control::kExitDeviceUnhealthy, 0, /*slot=*/1, {"GPU-7 is unhealthy"});
  world->Say(2, control::AgentLeaving{"slot 1: GPU-7 is unhealthy"});
  world->Accept(everyone);
  EXPECT_EQ(world->Members(), (std::vector{0, 0, 1, 1, 2})) << "it may hold what others lack";
  world->Commit(0, 11);
  world->Pass(100ms, everyone);
  world->AllAtBoundary(12);
  world->Accept({0, 1});

  EXPECT_EQ(world->Members(), (std::vector{0, 0, 1, 1}));
  world->Commit(0, 13);
  world->Pass(3s, everyone);
  EXPECT_FALSE(world->Decided());
  const control::LauncherStatus status = world->membership.Status(world->now);
  ASSERT_EQ(status.failures.size(), 1U);
  EXPECT_EQ(control::HowItEnded(status.failures[0]), "exited because its GPU is unhealthy");
}

TEST_F(Crashes, ADeviceThatIsUnhealthyBeforeTheFirstWorldWaitsForAnotherPod) {
  world->Order({0, 1}, 2);
  world->loads = false;
  for (const int worker : {0, 1}) world->Arrive(worker);
  world->starts[{1, 0}] = "first";
  world->Exit(1, control::kExitDeviceUnhealthy);
  world->Pass(3s, {0, 1});
  EXPECT_FALSE(world->Decided());

  world->Say(1, control::AgentLeaving{"slot 0: GPU-7 is unhealthy"});
  world->Pass(100ms, {0, 1});

  EXPECT_FALSE(world->Decided());
  EXPECT_NE(world->phase(), LauncherPhase::kRunning);
}

TEST_F(Crashes, ACommittedStepResetsTheCount) {
  Run(2);
  for (int time = 1; time <= 30; ++time) {
    ASSERT_NO_FATAL_FAILURE(KillAndComeBack(time));
    world->Commit(0, 10 + time);
  }

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(world->membership.Status(world->now).failures.size(), 16U);
  EXPECT_EQ(world->membership.Status(world->now).crashes, 0);
}

TEST_F(Crashes, TheCommitOfAnAdoptedStepIsNone) {
  Run(2);
  for (int time = 1; time <= 4; ++time) {
    ASSERT_NO_FATAL_FAILURE(KillAndComeBack(time));
    world->Commit(0, 10);
  }

  Kill(1);
  world->Pass(500ms, everyone);

  EXPECT_TRUE(world->Decided());
}

TEST_F(Crashes, LackOfMemoryIsNamedWithWhatThereWas) {
  Run(2);
  for (int time = 1; time <= 4; ++time) KillAndComeBack(time, kOutOfMemory);
  EXPECT_THAT(Message(), HasSubstr("ran out of memory: the memory limit is 64 MiB"));

  Kill(1, kOutOfMemory);
  world->Pass(500ms, everyone);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "OOMKilled");
  EXPECT_THAT(world->Verdict()->verdict.message,
              AllOf(HasSubstr("the memory limit is 64 MiB, and all of it was in use"),
                    HasSubstr("raise spec.worker.resources.limits.memory")));
}

TEST_F(Crashes, TheOnesThatDieOfItAreNotBlamedForALackOfMemory) {
  Run(2);
  for (int time = 1; time <= 4; ++time) KillAndComeBack(time, kOutOfMemory);

  world->Exit(0, -1, 6, 0, {"lost a peer"});
  Kill(1, kOutOfMemory);
  world->Pass(500ms, everyone);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.first_failure->rank, 1);
}

TEST_F(Crashes, ARankThatIsKilledWheneverItLoadsEndsTheStart) {
  world->loads = false;
  world->Order({0});
  world->Arrive(0);
  world->AttachAll();
  for (int time = 1; time <= 5; ++time) {
    ASSERT_FALSE(world->Decided()) << time;
    world->starts[{0, 0}] = "start " + std::to_string(time);
    Kill(0, kOutOfMemory);
    EXPECT_EQ(world->membership.Status(world->now).failures.size(), static_cast<std::size_t>(time));
    world->Pass(1s, {0});
  }

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "OOMKilled");
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("last output: allocating"));
}

TEST_F(Crashes, ARankThatCannotLoadEndsTheJobAlsoWhileAnotherWorkerIsMissing) {
  world->loads = false;
  world->Order({0, 1});
  world->Arrive(0);
  for (int time = 1; time <= 5; ++time) {
    ASSERT_FALSE(world->Decided()) << time;
    world->starts[{0, 0}] = "start " + std::to_string(time);
    world->Exit(0, time == 3 ? 1 : -1, time == 3 ? 0 : 11, 0, {"no such library"});
    world->Pass(1s, {0});
  }

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "CrashLoop");
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("no such library"));
}

TEST_F(Crashes, OfAWorkerThatWasToJoinDoNotFailAReleasedJob) {
  Run(1);
  world->Order({0, 1}, 2, 1);
  world->loads = false;
  world->Arrive(1);
  for (int time = 1; time <= 5; ++time) {
    world->starts[{1, 0}] = "start " + std::to_string(time);
    Kill(1);
  }
  world->Say(0, control::RankDone{world->membership.epoch(), 0});
  world->Pass(3s, {0, 1});
  EXPECT_FALSE(world->Decided());

  world->Exit(0, 0);
  world->MpirunEnds(0);

  ASSERT_TRUE(world->Decided());
  EXPECT_TRUE(world->Verdict()->verdict.succeeded);
}

TEST_F(Crashes, AMachineThatTakesAllRanksAlongIsOneDeath) {
  CoordinatorOptions options = World::Options(8, true);
  world = std::make_unique<World>(options);
  world->Order({0, 1}, 2, 1);
  for (const int worker : {0, 1}) world->Arrive(worker);
  world->AttachAll();
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  world->Pass(100ms, {0, 1});

  for (int slot = 0; slot < 8; ++slot) world->Exit(1, -1, 7, slot);
  world->Pass(3s, {0, 1});

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(world->membership.Status(world->now).crashes, 1);
}

// A user's program that does not report its steps.
class CrashesOfAnotherProgram : public Crashes {
 protected:
  void SetUp() override {
    world = std::make_unique<World>(1, false);
    Run(2);
  }
  // Kills worker 1's rank. Then mpirun ends the other rank and exits.
  void KillOne(const std::optional<control::OutOfMemory>& why = std::nullopt) {
    Kill(1, why);
    world->Exit(0, 0, 15);
    world->MpirunEnds(137);
    world->Pass(1s, everyone);
  }
  void StartAgain() {
    ASSERT_FALSE(world->Decided());
    world->Pass(10s, everyone);  // longer than the restart delays of these tests
    ASSERT_EQ(world->phase(), LauncherPhase::kStarting);
    world->AttachAll();
    ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  }
};

TEST_F(CrashesOfAnotherProgram, AKilledRankHasAllOfThemStartedAgain) {
  world->Pass(60s, everyone);
  const int64_t before = world->LastStart().cohort;

  KillOne();
  ASSERT_NO_FATAL_FAILURE(StartAgain());

  EXPECT_GT(world->LastStart().cohort, before);
  const auto status = world->membership.Status(world->now);
  EXPECT_EQ(status.crashes, 1);
  ASSERT_EQ(status.failures.size(), 1U);
  EXPECT_EQ(status.failures.front().pod, "digits-worker-1");
  EXPECT_EQ(status.failures.front().signal, 9);
  ASSERT_TRUE(status.last_recovery.has_value());
  EXPECT_EQ(status.last_recovery->cause, "RankKilled");
  EXPECT_EQ(status.last_recovery->pod, "digits-worker-1");
  EXPECT_TRUE(status.last_recovery->from_start);
}

TEST_F(CrashesOfAnotherProgram, AreTheCauseOfWhatOtherRanksEndWithMeanwhile) {
  world->Exit(0, 1);

  KillOne();

  ASSERT_NO_FATAL_FAILURE(StartAgain());
  EXPECT_EQ(world->membership.Status(world->now).last_recovery->pod, "digits-worker-1");
}

TEST_F(CrashesOfAnotherProgram, EndTheJobWithTheFifthInARow) {
  for (int time = 1; time <= 4; ++time) {
    KillOne();
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }
  EXPECT_EQ(world->membership.Status(world->now).failures.size(), 4U);

  KillOne();

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "CrashLoop");
  EXPECT_THAT(world->Verdict()->verdict.message,
              AllOf(HasSubstr("rank 1 on digits-worker-1"), HasSubstr("5 times in a row"),
                    HasSubstr("runPolicy.restart.crashLimit")));
}

// For example a shell script whose trap kills its process group, which includes the script.
TEST_F(CrashesOfAnotherProgram, BySigtermThatNoAgentSentCountToo) {
  for (int time = 1; time <= 4; ++time) {
    world->Exit(1, 0, 15);
    world->Exit(0, 0, 15);
    world->MpirunEnds(143);
    world->Pass(1s, everyone);
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }

  world->Exit(1, 0, 15);
  world->Exit(0, 0, 15);
  world->MpirunEnds(143);
  world->Pass(5s, everyone);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "CrashLoop");
}

// The daemons of an mpirun that was killed end the ranks.
TEST_F(CrashesOfAnotherProgram, BySigtermThatFollowTheKillOfMpirunNameMpirun) {
  const auto kill_mpirun = [this] {
    world->MpirunEnds(-1, {}, 9);
    for (const int worker : {0, 1}) world->Exit(worker, 0, 15);
    world->Pass(3s, everyone);
  };
  for (int time = 1; time <= 4; ++time) {
    kill_mpirun();
    EXPECT_THAT(world->membership.Status(world->now).message,
                HasSubstr("mpirun was killed by signal 9 in the launcher's Pod"));
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }
  kill_mpirun();

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "CrashLoop");
  EXPECT_THAT(world->Verdict()->verdict.message,
              AllOf(StartsWith("mpirun was killed by signal 9"), HasSubstr("5 times in a row")));
  EXPECT_EQ(world->Verdict()->exit_code, 137);
  EXPECT_FALSE(world->Verdict()->verdict.first_failure.has_value());
}

// An agent ends its programs after it was disconnected from the launcher for some time.
TEST_F(CrashesOfAnotherProgram, DoNotIncludeSigtermsOfAnAgentThatWasDisconnected) {
  world->Close(1);
  world->Pass(100ms, {0});
  world->Dial(1, 99);
  world->Ready(1);
  world->Exit(1, 0, 15);
  world->Exit(0, 0, 15);
  world->MpirunEnds(143);
  world->Pass(1s, everyone);

  ASSERT_NO_FATAL_FAILURE(StartAgain());
  EXPECT_EQ(world->membership.Status(world->now).crashes, 0);
}

TEST_F(CrashesOfAnotherProgram, AreForgottenWithTheWindowOfTheRestartLimit) {
  for (int time = 1; time <= 4; ++time) {
    KillOne();
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }
  world->now += world->options.restart_window + 1s;
  world->Pass(1s, everyone);

  KillOne();

  ASSERT_NO_FATAL_FAILURE(StartAgain());
  EXPECT_EQ(world->membership.Status(world->now).crashes, 1);
}

TEST_F(CrashesOfAnotherProgram, ForLackOfMemoryAreNamed) {
  for (int time = 1; time <= 4; ++time) {
    KillOne(kOutOfMemory);
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }
  EXPECT_EQ(world->membership.Status(world->now).last_recovery->cause, "OOMKilled");

  KillOne(kOutOfMemory);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "OOMKilled");
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("64 MiB"));
}

// Tests of ranks that exit with an error. The program may be at fault, or a restart may help.
class EndsOfAnotherProgram : public CrashesOfAnotherProgram {
 protected:
  void RunWith(int limit, const ExitCodeRules& rules = {}) {
    auto options = World::Options(1, /*elastic=*/false);
    options.restart_limit = limit;
    options.exit_codes = rules;
    world = std::make_unique<World>(options);
    Run(2);
  }
  // Lets worker 1's rank fail. Then mpirun ends the other rank and exits.
  void FailOne(int code = 1) {
    world->Exit(1, code, 0, 0, {"NCCL timeout"});
    world->Exit(0, 0, 15);
    world->MpirunEnds(code);
    world->Pass(1s, everyone);
  }
  void RunFor(std::chrono::milliseconds time) { world->Pass(time, everyone); }
};

TEST_F(EndsOfAnotherProgram, HaveAllRanksStartedAgainUpToTheLimit) {
  RunWith(2);
  for (int time = 1; time <= 2; ++time) {
    RunFor(61s);
    FailOne();
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }
  const auto status = world->membership.Status(world->now);
  EXPECT_EQ(status.crashes, 0);
  ASSERT_EQ(status.failures.size(), 2U);
  EXPECT_EQ(status.failures.front().exit_code, 1);
  EXPECT_EQ(status.last_recovery->cause, "RankExited");
  EXPECT_EQ(status.last_recovery->pod, "digits-worker-1");

  RunFor(61s);
  FailOne();

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "RankFailed");
  EXPECT_EQ(world->Verdict()->exit_code, 1);
  EXPECT_THAT(world->Verdict()->verdict.message,
              AllOf(HasSubstr("rank 1 on digits-worker-1 (node-1) exited with code 1"),
                    HasSubstr("last output: NCCL timeout"),
                    HasSubstr("2 ranks had ended before it, the limit")));
}

// If a script always fails soon after its start, the job fails after a few restarts.
TEST_F(EndsOfAnotherProgram, SoonAfterTheStartAreCrashesToo) {
  RunWith(10);
  for (int time = 1; time <= 4; ++time) {
    FailOne();
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }

  FailOne();

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "CrashLoop");
  EXPECT_THAT(world->Verdict()->verdict.message,
              AllOf(HasSubstr("last output: NCCL timeout"), HasSubstr("5 times in a row")));
}

TEST_F(EndsOfAnotherProgram, FromTheSecondOnPauseBeforeTheStart) {
  RunWith(10);
  FailOne();
  ASSERT_NO_FATAL_FAILURE(StartAgain());

  world->Exit(1, 1);
  world->Exit(0, 0, 15);
  world->MpirunEnds(1);
  world->Pass(600ms, everyone);

  EXPECT_EQ(world->phase(), LauncherPhase::kWaitingForAgents);
  EXPECT_THAT(
      Message(),
      HasSubstr("rank 1 on digits-worker-1 (node-1) exited with code 1; restarting in 1 second"));
  world->Pass(1s, everyone);
  EXPECT_EQ(world->phase(), LauncherPhase::kStarting);
}

// A program that ran for twenty seconds each time does not wait a minute for its restart.
TEST_F(EndsOfAnotherProgram, PauseForNoMoreThanAQuarterOfTheTimeThatTheProgramRan) {
  auto options = World::Options(1, /*elastic=*/false);
  options.restart_limit = options.crash_limit = 100;
  world = std::make_unique<World>(options);
  Run(2);
  for (int time = 1; time <= 9; ++time) {
    RunFor(20s);
    FailOne();
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }

  RunFor(20s);
  FailOne();
  world->Pass(3s, everyone);

  EXPECT_EQ(world->phase(), LauncherPhase::kWaitingForAgents);
  world->Pass(3s, everyone);
  EXPECT_EQ(world->phase(), LauncherPhase::kStarting);
}

TEST_F(EndsOfAnotherProgram, WithACodeThatIsIgnoredNeverCount) {
  RunWith(0, {.fail = {}, .ignored = {77}});
  for (int time = 1; time <= 5; ++time) {
    FailOne(77);
    ASSERT_NO_FATAL_FAILURE(StartAgain()) << time;
  }
  EXPECT_EQ(world->membership.Status(world->now).crashes, 0);
}

// Tests of programs for which the user has limited how long all ranks may be silent.
class SilencesOfAnotherProgram : public CrashesOfAnotherProgram {
 protected:
  void RunWith(std::chrono::milliseconds stall) {
    auto options = World::Options(1, /*elastic=*/false);
    options.stall_floor = stall;
    options.crash_limit = 2;
    world = std::make_unique<World>(options);
    Run(2);
  }
  // Lets time pass. With `sign`, the rank of `worker` shows activity once a second. Others do not.
  void Pass(int seconds, bool sign, int worker = 1) {
    for (int second = 0; second < seconds && !world->Decided(); ++second) {
      world->Pass(1s, everyone);
      const control::RankPosition position{.rank = worker, .still_millis = sign ? 0 : 3'600'000};
      world->Say(worker, control::RankPositions{world->membership.epoch(), {position}});
    }
  }
  void ExpectStartedAgain() {
    EXPECT_NE(world->phase(), LauncherPhase::kRunning);
    for (const int worker : everyone) world->Exit(worker, 0, 15);
    world->MpirunEnds(143);
    StartAgain();
  }
};

TEST_F(SilencesOfAnotherProgram, HaveItStartedAgainAndThenEndTheJob) {
  RunWith(20s);
  Pass(60, /*sign=*/true);
  ASSERT_EQ(world->phase(), LauncherPhase::kRunning);

  Pass(21, /*sign=*/false);
  ASSERT_NO_FATAL_FAILURE(ExpectStartedAgain());
  EXPECT_EQ(world->membership.Status(world->now).last_recovery->cause, "Stalled");
  Pass(21, /*sign=*/false);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "CrashLoop");
  EXPECT_THAT(world->Verdict()->verdict.message,
              HasSubstr("touched its heartbeat file (RINGMASTER_HEARTBEAT) for 20 s"));
}

// The launcher does not know which rank the others wait for, so it names the first silent rank.
TEST_F(SilencesOfAnotherProgram, NameTheRankThatWasSilentForTheLongestTime) {
  RunWith(20s);
  Pass(5, /*sign=*/true, 1);
  Pass(7, /*sign=*/true, 0);

  Pass(21, /*sign=*/false);
  const control::LauncherStatus stopping = world->membership.Status(world->now);
  ASSERT_NO_FATAL_FAILURE(ExpectStartedAgain());
  const control::LauncherStatus again = world->membership.Status(world->now);
  Pass(5, /*sign=*/true, 0);
  Pass(26, /*sign=*/false);

  ASSERT_EQ(stopping.failures.size(), 1U);
  const control::RankExit& first = stopping.failures.front();
  EXPECT_EQ(first.rank, 1);
  EXPECT_EQ(first.pod, "digits-worker-1");
  EXPECT_EQ(first.node, "node-1");
  EXPECT_EQ(first.start, "epoch 1");
  EXPECT_THAT(first.last_lines,
              ElementsAre("the program hangs: no rank printed anything or touched its heartbeat "
                          "file (RINGMASTER_HEARTBEAT) for 20 s; this rank was silent for longest, "
                          "for 27 s"));
  EXPECT_THAT(
      stopping.message,
      HasSubstr("20 s; rank 1 on digits-worker-1 (node-1) was silent for longest, for 27 s; "
                "see \"kubectl trainingjob logs\" for the last output of each rank"));
  EXPECT_EQ(again.last_recovery->pod, "digits-worker-1");
  EXPECT_EQ(again.last_recovery->node, "node-1");
  EXPECT_GE(again.last_recovery->detected_millis, 27'000);
  EXPECT_LT(again.last_recovery->detected_millis, 28'000);
  ASSERT_TRUE(world->Decided());
  const std::optional<control::RankExit> last = world->Verdict()->verdict.first_failure;
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->rank, 1);
  EXPECT_EQ(last->pod, "digits-worker-1");
  EXPECT_THAT(last->last_lines, ElementsAre(HasSubstr("this rank was silent for longest")));
}

TEST_F(SilencesOfAnotherProgram, AreItsOwnBusinessOtherwise) {
  RunWith(0s);
  Pass(600, /*sign=*/false);
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
}

struct FinalEnd {
  int code;
  const char* reason;
};
class FinalEndsOfAnotherProgram : public EndsOfAnotherProgram,
                                  public testing::WithParamInterface<FinalEnd> {};

TEST_P(FinalEndsOfAnotherProgram, FailTheJobAtOnce) {
  RunWith(10, {.fail = {41}, .ignored = {}});

  FailOne(GetParam().code);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Codes, FinalEndsOfAnotherProgram,
                         testing::Values(FinalEnd{control::kExitUserError, "UserError"},
                                         FinalEnd{41, "RankFailed"},
                                         FinalEnd{control::kExitCannotStart, "RankFailed"}));

}  // namespace
}  // namespace ringmaster::launcher
