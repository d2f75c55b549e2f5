// Tests how jobs end, and which rank or worker the verdict blames.

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::EndsWith;
using testing::HasSubstr;

class TwoWorkers : public testing::Test {
 protected:
  void Start(int slots = 1, bool elastic = true, int start_attempts = 1) {
    CoordinatorOptions options = World::Options(slots, elastic, start_attempts);
    options.restart_limit = 0;
    world = std::make_unique<World>(options);
    world->Order({0, 1});
    world->Arrive(0);
    world->Arrive(1);
  }
  void Run(int slots = 1, bool elastic = true) {
    Start(slots, elastic);
    world->AttachAll();
    ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
  }
  void Settle(std::chrono::milliseconds time = 2s) { world->Pass(time, {0, 1}); }

  std::unique_ptr<World> world;
};

TEST_F(TwoWorkers, SucceedAfterAllAreDoneReleasedAndEnded) {
  Run();
  const control::Epoch epoch = world->membership.epoch();
  world->Say(0, control::RankProgress{epoch, {100, 100, 5000, 0.03, 0.98}});
  world->Say(0, control::RankDone{epoch, 0});
  EXPECT_EQ(world->Sent<control::Release>(), 0);
  world->Say(1, control::RankDone{epoch, 1});
  EXPECT_EQ(world->Sent<control::Release>(), 2);
  world->Say(1, control::RankDone{epoch, 1});
  EXPECT_EQ(world->Sent<control::Release>(), 2) << "once";

  world->Exit(0, 0);
  world->Exit(1, 0);
  EXPECT_FALSE(world->Decided());
  world->MpirunEnds(0);

  ASSERT_TRUE(world->Decided());
  const control::Verdict verdict = world->Verdict()->verdict;
  EXPECT_TRUE(verdict.succeeded);
  EXPECT_EQ(world->Verdict()->exit_code, 0);
  EXPECT_EQ(verdict.clean_exits, 2);
  EXPECT_EQ(verdict.world_size, 2);
  EXPECT_EQ(verdict.progress->step, 100);
  EXPECT_EQ(world->Sent<control::Shutdown>(), 2);
}

// After the last step, scripts save the model, which may take long and may fail.
class AfterTraining : public TwoWorkers {
 protected:
  void Release() {
    Run();
    world->Commit(0, 100);
    for (const int rank : {0, 1}) {
      world->Say(rank, control::RankDone{world->membership.epoch(), rank});
    }
    ASSERT_EQ(world->Sent<control::Release>(), 2);
  }
};

TEST_F(AfterTraining, ARankMayRunForAsLongAsItNeeds) {
  Run();
  EXPECT_FALSE(world->membership.Status(world->now).training_ended);
  Release();
  world->Exit(1, 0);
  world->Pass(60s, {0, 1});
  EXPECT_FALSE(world->Decided());
  EXPECT_TRUE(world->membership.Status(world->now).training_ended);
  EXPECT_EQ(world->membership.Status(world->now).message,
            "training has ended; waiting for the processes on digits-worker-0 (node-0) to exit");

  world->Exit(0, 0);
  world->Pass(5s, {0, 1});
  EXPECT_FALSE(world->Decided()) << "mpirun prints the last output";
  EXPECT_EQ(world->membership.Status(world->now).message,
            "training has ended; waiting for mpirun to exit");
  world->MpirunEnds(0);

  ASSERT_TRUE(world->Decided());
  EXPECT_TRUE(world->Verdict()->verdict.succeeded);
  EXPECT_EQ(world->Verdict()->verdict.message, "all 2 ranks completed");
}

TEST_F(AfterTraining, ARankThatFailsFailsTheJob) {
  struct Case {
    bool checkpoint;
    int code;
    int signal;
    const char* message;
    int exit_code;
  };
  for (const Case& c :
       {Case{false, 1, 0,
             "training ended after step 100; then rank 0 on digits-worker-0 (node-0) exited with "
             "code 1; last output: no space left",
             1},
        Case{true, 0, 9,
             "training ended after step 100, and the checkpoint of step 100 is complete; then rank "
             "0 on digits-worker-0 (node-0) was killed by signal 9; last output: no "
             "space left",
             137}}) {
    Release();
    if (c.checkpoint) {
      const control::Epoch epoch = world->membership.epoch();
      world->Say(0, control::CheckpointWritten{epoch, 0, 100, 0, 1, ""});
      world->Say(0, control::CheckpointDone{epoch, 0, 100, 1});
    }
    world->Exit(1, 0);
    world->Pass(60s, {0, 1});
    world->Exit(0, c.code, c.signal, 0, {"no space left"});
    world->Say(0, control::AgentLeaving{"its GPU is broken"});
    Settle();

    ASSERT_TRUE(world->Decided()) << c.message;
    EXPECT_EQ(world->Verdict()->verdict.reason, "RankFailed");
    EXPECT_EQ(world->Verdict()->verdict.message, c.message);
    EXPECT_EQ(world->Verdict()->exit_code, c.exit_code);
    EXPECT_EQ(world->Verdict()->verdict.clean_exits, 1);
    ASSERT_EQ(world->membership.Status(world->now).failures.size(), 1U);
  }
}

TEST_F(AfterTraining, EarlierFailuresDoNotCount) {
  CoordinatorOptions options = World::Options(1, true);
  options.restart_limit = 1;
  world = std::make_unique<World>(options);
  world->Order({0, 1}, 2, 1);
  world->Arrive(0);
  world->Arrive(1);
  world->AttachAll();
  world->Exit(1, 1);
  world->Accept({0});
  ASSERT_EQ(world->Members(), std::vector<int>{0});
  world->Say(0, control::RankDone{world->membership.epoch(), 0});
  world->Exit(0, 3);
  Settle();

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.message,
            "training ended; then rank 0 on digits-worker-0 (node-0) exited with code 3; it "
            "printed no output");
}

TEST_F(AfterTraining, ALostWorkerIsWaitedForTenSecondsAndNamed) {
  Release();
  world->Exit(0, 0);
  world->Pass(60s, {0, 1});
  world->Close(1);
  world->Pass(10s - 100ms, {0});
  EXPECT_FALSE(world->Decided()) << "its agent may reconnect";
  EXPECT_EQ(world->membership.Status(world->now).message,
            "training has ended; waiting for digits-worker-1 (node-1) to connect again");
  world->Pass(100ms, {0});

  ASSERT_TRUE(world->Decided());
  EXPECT_TRUE(world->Verdict()->verdict.succeeded);
  EXPECT_EQ(world->Verdict()->verdict.message,
            "all 2 ranks completed; digits-worker-1 (node-1) was lost before its ranks had ended");
  EXPECT_EQ(world->Verdict()->verdict.clean_exits, 1);
}

TEST_F(AfterTraining, ARankThatEndedWithItsPodIsNotAwaited) {
  Release();
  world->Say(0, control::AgentLeaving{"SIGTERM"});
  world->Exit(0, 0, 15);
  world->Exit(1, 0);

  EXPECT_EQ(world->membership.Status(world->now).message,
            "training has ended; waiting for mpirun to exit");
}

TEST_F(AfterTraining, ARankThatEndsWithItsPodDoesNotFailTheJob) {
  Release();
  world->Say(0, control::AgentLeaving{"SIGTERM"});
  world->Exit(0, 0, 15);
  world->Dial(1, 0, "restarted");
  world->MpirunEnds(0);
  Settle();

  ASSERT_TRUE(world->Decided());
  EXPECT_TRUE(world->Verdict()->verdict.succeeded);
  EXPECT_EQ(world->Verdict()->verdict.message,
            "all 2 ranks completed; digits-worker-0 (node-0), digits-worker-1 (node-1) were lost "
            "before their ranks had ended");
}

TEST_F(TwoWorkers, LoseTheWorldWhenAWorkerVanishesBeforeRelease) {
  Run();
  world->Say(0, control::RankDone{world->membership.epoch(), 0});
  world->Close(1);
  world->Pass(1s, {0});

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(world->Sent<control::Release>(), 0);
}

TEST_F(TwoWorkers, OnlyItsOwnAgentMayReportARankDone) {
  Run();
  world->Say(0, control::RankDone{world->membership.epoch(), 0});
  world->Say(0, control::RankDone{world->membership.epoch(), 1});
  world->Say(0, control::RankDone{world->membership.epoch(), 7});

  EXPECT_EQ(world->Sent<control::Release>(), 0);
}

TEST_F(TwoWorkers, AFailedRankFailsTheJobByName) {
  for (const int rank : {0, 1}) {
    Run();
    world->Exit(rank, 3, 0, 0, {"loading", "out of luck", ""});
    Settle();

    ASSERT_TRUE(world->Decided());
    EXPECT_EQ(world->Verdict()->verdict.reason, "RankFailed");
    const std::string digit = std::to_string(rank);
    EXPECT_EQ(world->Verdict()->verdict.message,
              "rank " + digit + " on digits-worker-" + digit + " (node-" + digit +
                  ") exited with code 3; last output: out of luck");
    EXPECT_EQ(world->Verdict()->exit_code, 3);
    EXPECT_EQ(world->Verdict()->verdict.first_failure->pod, "digits-worker-" + digit);
  }
}

struct FailureCase {
  const char* what;
  // Exits in the order of their arrival: {worker, code, signal}.
  std::vector<std::array<int, 3>> exits;
  const char* reason;
  const char* message;
  int exit_code;
};

class Blames : public TwoWorkers, public testing::WithParamInterface<FailureCase> {};

TEST_P(Blames, TheRankThatFailedFirst) {
  const FailureCase& c = GetParam();
  Run();
  for (const auto& [worker, code, signal] : c.exits) world->Exit(worker, code, signal);
  Settle(3s);

  ASSERT_TRUE(world->Decided()) << c.what;
  EXPECT_EQ(world->Verdict()->verdict.reason, c.reason) << c.what;
  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr(c.message)) << c.what;
  EXPECT_EQ(world->Verdict()->exit_code, c.exit_code) << c.what;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Blames,
    testing::Values(
        FailureCase{"user error",
                    {{0, 2, 0}},
                    "UserError",
                    "rank 0 on digits-worker-0 (node-0) exited with code 2",
                    2},
        FailureCase{"victim first", {{0, 75, 0}, {1, 0, 11}}, "RankFailed", "rank 1", 139},
        FailureCase{"only victims", {{0, 75, 0}, {1, 75, 0}}, "RankFailed", "rank 0", 75},
        FailureCase{"first of two", {{1, 4, 0}, {0, 3, 0}}, "RankFailed", "rank 1", 4},
        FailureCase{"user error wins", {{0, 1, 0}, {1, 2, 0}}, "UserError", "rank 1", 2},
        FailureCase{"terminated victim", {{0, 0, 15}, {1, 3, 0}}, "RankFailed", "rank 1", 3},
        FailureCase{"no program", {{0, 127, 0}}, "RankFailed", "could not be started", 127},
        FailureCase{"too early",
                    {{0, 0, 0}},
                    "RankFailed",
                    "exited with code 0 before the training was complete",
                    1}));

TEST_F(TwoWorkers, TheEarlierFailureIsTheFirst) {
  Run();
  world->Exit(1, 4);
  world->Pass(100ms, {0, 1});
  world->Exit(0, 3);
  Settle();

  EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("rank 1"));
}

TEST_F(TwoWorkers, AVanishedWorkerIsNotItsPeersFailure) {
  Run(1, false);
  world->Exit(0, 1, 0, 0, {"connection reset by peer"});
  world->Pass(1500ms, {0});
  EXPECT_FALSE(world->Decided());

  world->Pass(1s, {0});

  EXPECT_FALSE(world->Decided());
  EXPECT_NE(world->phase(), LauncherPhase::kRunning);
}

TEST_F(TwoWorkers, DirectProgramsSucceedWhenAllExitCleanly) {
  Run(2, false);
  for (const int worker : {0, 1}) {
    for (const int slot : {0, 1}) world->Exit(worker, 0, 0, slot);
  }
  world->MpirunEnds(0);

  ASSERT_TRUE(world->Decided());
  EXPECT_TRUE(world->Verdict()->verdict.succeeded);
  EXPECT_EQ(world->Verdict()->verdict.clean_exits, 4);
}

TEST_F(TwoWorkers, DirectProgramsGoWithTheirMpirun) {
  struct Case {
    int mpirun_code;
    int exit_code;
  };
  for (const Case& c : {Case{0, 1}, Case{1, 1}, Case{7, 7}}) {
    Run(1, false);
    world->MpirunEnds(c.mpirun_code, {"ORTE has lost communication with a remote daemon."});
    Settle(1500ms - 100ms);
    EXPECT_FALSE(world->Decided());
    Settle(100ms);

    ASSERT_TRUE(world->Decided());
    EXPECT_EQ(world->Verdict()->verdict.reason, "MpirunFailed");
    EXPECT_EQ(world->Verdict()->exit_code, c.exit_code);
  }
}

TEST_F(TwoWorkers, AWorkerThatVanishesWithMpirunIsNotTheProgramsFailure) {
  Run(1, false);
  world->MpirunEnds(1);
  world->Pass(1600ms, {0});

  EXPECT_FALSE(world->Decided());
}

TEST_F(TwoWorkers, OurTrainerOutlivesItsMpirun) {
  Run();
  world->MpirunEnds(1);
  Settle(10s);

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
}

TEST_F(TwoWorkers, EveryRankOnOneHostIsAWorldMismatch) {
  Start();
  world->Attach(0, 0, 0, 2);
  world->Attach(0, 1, 1, 2);
  EXPECT_EQ(world->Sent<control::StartEpoch>(), 0);
  Settle(500ms);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "WorldMismatch");
  EXPECT_THAT(world->Verdict()->verdict.message,
              HasSubstr("expected 2 (digits-worker-0 (node-0) slot 0, digits-worker-1 (node-1) "
                        "slot 0), attached 2 "
                        "(digits-worker-0 (node-0) slot 0, digits-worker-0 (node-0) slot 1)"));
  EXPECT_EQ(world->Sent<control::StartEpoch>(), 0);
}

TEST_F(TwoWorkers, ASlotAttachedTwiceIsAWorldMismatch) {
  Start();
  world->Attach(0, 0, 0, 2);
  world->Attach(0, 0, 1, 2);
  Settle(500ms);

  EXPECT_EQ(world->Verdict()->verdict.reason, "WorldMismatch");
  EXPECT_THAT(world->Verdict()->verdict.message,
              HasSubstr("two processes attached to digits-worker-0 (node-0) slot 0"));
}

TEST_F(TwoWorkers, ASecondAttachAfterTheSetIsWholeStillCountsBeforeTheGate) {
  Start(2);
  world->Attach(0, 0, 0, 4);
  world->Attach(0, 1, 1, 4);
  world->Attach(1, 0, 2, 4);
  world->Attach(1, 1, 2, 4);  // attaches rank 2 of mpirun a second time
  Settle(500ms);

  EXPECT_EQ(world->Verdict()->verdict.reason, "WorldMismatch");
}

TEST_F(TwoWorkers, AnotherWorldSizeIsAWorldMismatch) {
  Start();
  world->Attach(0, 0, 0, 1);
  world->Attach(1, 0, 0, 1);
  Settle(500ms);

  EXPECT_EQ(world->Verdict()->verdict.reason, "WorldMismatch");
  EXPECT_EQ(world->Sent<control::StartEpoch>(), 0);
}

TEST_F(TwoWorkers, ProcessesOnAHostWithoutAgentAreAWorldMismatch) {
  for (const bool by_code : {true, false}) {
    Start();
    world->MpirunEnds(
        by_code ? 79 : 1,
        {by_code ? "x" : "[1,0]<stderr>: ringmaster-attach: found no agent on this host (…)"});
    Settle(1s);

    ASSERT_TRUE(world->Decided());
    EXPECT_EQ(world->Verdict()->verdict.reason, "WorldMismatch");
    EXPECT_THAT(world->Verdict()->verdict.message, HasSubstr("ignored the hostfile"));
  }
}

TEST_F(TwoWorkers, AnMpirunThatEndsEarlyIsQuoted) {
  Start();
  world->MpirunEnds(255, {"bash: orted: command not found"});
  Settle(1s);

  EXPECT_EQ(world->Verdict()->verdict.reason, "MpirunFailed");
  EXPECT_THAT(world->Verdict()->verdict.message,
              HasSubstr("last output: bash: orted: command not found"));
}

TEST_F(TwoWorkers, MpirunsTextBetweenRulesIsQuotedWithoutThem) {
  Start();
  world->MpirunEnds(
      1, {"some other line", std::string(74, '-'),
          "An unrecognized option was included on the mpirun command line:", "   Option: --foo",
          "Please use the \"mpirun --help\" command.", std::string(74, '-')});
  Settle(1s);

  EXPECT_THAT(world->Verdict()->verdict.message,
              EndsWith("last output: An unrecognized option was included on the mpirun command "
                       "line: Option: --foo Please use the \"mpirun --help\" command."));
}

TEST_F(TwoWorkers, ARuleAloneIsNotWhatWasPrintedLast) {
  Start();
  world->MpirunEnds(1, {"mpirun: Error: unknown option", "====="});
  Settle(1s);

  EXPECT_THAT(world->Verdict()->verdict.message,
              EndsWith("last output: mpirun: Error: unknown option"));
}

TEST_F(TwoWorkers, AnMpirunThatEndsEarlyIsTriedAgainBeforeItIsTheJobsFailure) {
  Start(1, true, 2);
  const int64_t first = world->LastStart().cohort;
  world->MpirunEnds(255, {"Connection timed out during banner exchange"});
  Settle(1s);

  EXPECT_FALSE(world->Decided());
  ASSERT_GT(world->LastStart().cohort, first);

  world->MpirunEnds(255, {"Connection timed out during banner exchange"});
  Settle(1s);

  ASSERT_TRUE(world->Decided());
  EXPECT_EQ(world->Verdict()->verdict.reason, "MpirunFailed");
}

TEST_F(TwoWorkers, AnMpirunThatSucceedsWithoutStartingAnythingDidNotSucceed) {
  Start();
  world->MpirunEnds(0);
  Settle(1s);

  ASSERT_TRUE(world->Decided());
  EXPECT_FALSE(world->Verdict()->verdict.succeeded);
}

TEST_F(TwoWorkers, AnMpirunThatHangsIsNamedAfterAMinute) {
  Start();
  world->Attach(1, 0, 1, 2);
  Settle(61s);

  EXPECT_EQ(world->Verdict()->verdict.reason, "MpirunFailed");
  EXPECT_THAT(world->Verdict()->verdict.message,
              HasSubstr("attached 1 (digits-worker-1 (node-1) slot 0)"));
}

TEST_F(TwoWorkers, AFaultyWorkerFailsTheFirstStartOnceAllHaveReported) {
  for (const int min_replicas : {1, 2}) {  // if 1, the other worker would be enough
    world = std::make_unique<World>();
    world->Order({0, 1}, 2, min_replicas);
    world->Dial(0);
    world->Ready(0, {{"gpu", "no GPU found; ask for nvidia.com/gpu"}});
    EXPECT_FALSE(world->Decided());
    world->Arrive(1);

    ASSERT_TRUE(world->Decided());
    EXPECT_EQ(world->Verdict()->verdict.reason, "PreflightFailed");
    EXPECT_EQ(
        world->Verdict()->verdict.message,
        "digits-worker-0 (node-0) failed the check 'gpu': no GPU found; ask for nvidia.com/gpu");
  }
}

TEST_F(TwoWorkers, AsManyFaultsAreNamedAsFitAFewLines) {
  const std::string first = "digits-worker-0 (node-0) failed the check 'disk': ";
  for (const std::size_t bytes : {std::size_t{1500}, std::size_t{1501}}) {  // first fault's length
    world = std::make_unique<World>();
    world->Order({0, 1});
    for (const int worker : {0, 1}) world->Dial(worker);
    world->Ready(0, {{"disk", std::string(bytes - first.size(), 'x')}});
    world->Ready(1, {{"disk", "full"}});

    ASSERT_TRUE(world->Decided());
    EXPECT_THAT(world->Verdict()->verdict.message,
                EndsWith(bytes == 1500 ? "; digits-worker-1 (node-1) failed the check 'disk': full"
                                       : "; and more"));
  }
}

TEST_F(TwoWorkers, AFaultDoesNotWaitForWorkersThatNeverCome) {
  world = std::make_unique<World>();
  world->Order({0, 1});
  world->Dial(0);
  world->Ready(0, {{"disk", "full"}});
  world->Pass(5s - 100ms, {0});
  EXPECT_FALSE(world->Decided());

  world->Pass(100ms, {0});
  ASSERT_TRUE(world->Decided());

  EXPECT_EQ(world->Verdict()->verdict.reason, "PreflightFailed");
}

TEST_F(TwoWorkers, AFaultThatDisappearsIsForgotten) {
  world = std::make_unique<World>();
  world->Order({0, 1});
  world->Dial(0);
  world->Ready(0, {{"sshd-start", "restarting"}});
  world->Ready(0);
  world->Arrive(1);

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(world->phase(), LauncherPhase::kStarting);
}

TEST_F(TwoWorkers, AFaultyReplacementDoesNotEndARunningJob) {
  world = std::make_unique<World>();
  world->Order({0, 1}, 2, 1);
  world->Arrive(0);
  world->Arrive(1);
  world->AttachAll();
  world->Order({0, 1, 2}, 3, 1);
  world->Dial(2);
  world->Ready(2, {{"disk", "full"}});
  world->Pass(10s, {0, 1, 2});

  EXPECT_FALSE(world->Decided());
  EXPECT_EQ(world->phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world->membership.Status(world->now).workers[2].faults.size(), 1U);
}

// A faulty replacement ends the job only if too few other workers remain or can still come.
TEST_F(TwoWorkers, AFaultyReplacementEndsAProgramThatTooFewOthersAreThereFor) {
  struct Case {
    const char* what;
    int min_replicas;
    bool one_more_may_come;
    bool ends;
  };
  for (const Case& c :
       {Case{"enough without it", 1, false, false}, Case{"too few without it", 2, false, true},
        Case{"enough with another one", 2, true, false}, Case{"too few even so", 3, true, true}}) {
    world = std::make_unique<World>(1, false);
    world->Order({0, 1}, 2, 1);
    for (const int worker : {0, 1}) world->Arrive(worker);
    world->AttachAll();
    ASSERT_EQ(world->phase(), LauncherPhase::kRunning);
    world->DeclareDead({1}, c.one_more_may_come ? std::vector{0, 2, 3} : std::vector{0, 2},
                       c.one_more_may_come ? 3 : 2, c.min_replicas);
    world->Exit(0, 0, 15);
    world->MpirunEnds(143);
    ASSERT_EQ(world->phase(), LauncherPhase::kWaitingForAgents);

    world->Dial(2);
    world->Ready(2, {{"disk", "full"}});
    world->Pass(10s, {0, 2});

    EXPECT_EQ(world->Decided(), c.ends) << c.what;
  }
}

TEST_F(TwoWorkers, StartTogetherUnlessTheirVersionsDiffer) {
  using Versions = std::map<std::string, std::string>;
  struct Case {
    const char* what;
    Versions one;
    Versions other;
    const char* says;  // null: the ranks start
  };
  const Case cases[] = {
      {"the same", {{"openmpi", "4.1.4"}}, {{"openmpi", "4.1.4"}}, nullptr},
      {"one says nothing", {{"openmpi", "4.1.4"}}, {}, nullptr},
      {"the other says nothing", {}, {{"openmpi", "4.1.4"}}, nullptr},
      {"nobody knows", {{"openmpi", ""}}, {{"openmpi", ""}}, nullptr},
      {"the launcher's, in more words",
       {{"openmpi", "Open MPI 4.1.4 (Debian)"}},
       {{"openmpi", "Open MPI 4.1.4 (Debian)"}},
       nullptr},
      {"another Open MPI",
       {{"openmpi", "4.1.4"}},
       {{"openmpi", "5.0.7"}},
       "digits-worker-1 (node-1) has openmpi 5.0.7, digits-worker-0 (node-0) has 4.1.4; use the "
       "same image"},
      {"another Ringmaster",
       {{"openmpi", "4.1.4"}, {"ringmaster", "0.1.0"}},
       {{"openmpi", "4.1.4"}, {"ringmaster", "0.2.0"}},
       "digits-worker-1 (node-1) has ringmaster 0.2.0, digits-worker-0 (node-0) has 0.1.0; use the "
       "same image"},
      {"another one than the launcher",
       {{"openmpi", "5.0.7"}},
       {{"openmpi", "5.0.7"}},
       "digits-worker-0 (node-0) has Open MPI 5.0.7, the launcher has 4.1.4; use the same image"},
      {"a later one that begins like the launcher's",
       {{"openmpi", "4.1.41"}},
       {{"openmpi", "4.1.41"}},
       "digits-worker-0 (node-0) has Open MPI 4.1.41, the launcher has 4.1.4; use the same image"},
  };
  for (const Case& c : cases) {
    world = std::make_unique<World>();
    world->Order({0, 1});
    for (const int worker : {0, 1}) {
      world->Dial(worker);
      world->Say(worker, control::AgentReady{"10.0.0.9", 2200, {}, worker == 0 ? c.one : c.other});
    }

    EXPECT_EQ(world->All<StartMpirun>().size(), c.says == nullptr ? 1U : 0U) << c.what;
    ASSERT_EQ(world->Decided(), c.says != nullptr) << c.what;
    if (c.says == nullptr) continue;
    EXPECT_EQ(world->Verdict()->verdict.reason, "PreflightFailed");
    EXPECT_EQ(world->Verdict()->verdict.message, c.says);
  }
}

TEST_F(TwoWorkers, AFinishedJobShutsLateAgentsDown) {
  Run();
  world->Exit(0, 2);
  Settle();
  ASSERT_TRUE(world->Decided());
  const int before = world->Sent<control::Shutdown>();

  world->Dial(5);

  EXPECT_EQ(world->Sent<control::Shutdown>(), before + 1);
}

}  // namespace
}  // namespace ringmaster::launcher
