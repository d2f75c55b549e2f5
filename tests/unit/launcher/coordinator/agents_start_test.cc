// Tests jobs whose ranks the agents start, because there is no mpirun or it is not needed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/reasons.h"
#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;
using testing::IsEmpty;

const std::vector<control::PreflightFault> kOnlySshd = {{control::kCheckSshd, "no sshd"}};
const std::vector<control::PreflightFault> kNoSshd = {{control::kCheckSshd, "no sshd"},
                                                      {control::kCheckMpi, "no orted"}};

class AgentsStart : public testing::TestWithParam<bool> {
 protected:
  bool elastic() const { return GetParam(); }

  static CoordinatorOptions First(int slots, bool elastic) {
    CoordinatorOptions options = World::Options(slots, elastic);
    options.term = 1;  // no earlier launcher can have formed a world
    return options;
  }

  World world{First(2, elastic()), /*has_mpirun=*/false};
};

INSTANTIATE_TEST_SUITE_P(Jobs, AgentsStart, testing::Bool());

TEST_P(AgentsStart, TheGateOpensOnceAllAreReadyAndNothingAttaches) {
  world.Order({0, 1});
  for (const int worker : {0, 1}) {
    world.Dial(worker);
    world.Ready(worker, kNoSshd);
  }
  world.Pass(10s, {0, 1});
  EXPECT_EQ(world.membership.phase(), LauncherPhase::kWaitingForAgents)
      << "nobody knows yet who starts the ranks, so nobody knows what is a fault";

  world.Take(world.membership.OnNoMpirun(world.now));

  EXPECT_EQ(world.membership.phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world.All<StartMpirun>(), IsEmpty());
  EXPECT_EQ(world.membership.Status(world.now).world_size, 4);
  const control::LauncherStatus status = world.membership.Status(world.now);
  EXPECT_EQ(status.started_by, control::kByAgents);
  for (const control::WorkerReport& worker : status.workers) EXPECT_THAT(worker.faults, IsEmpty());
}

TEST_P(AgentsStart, AnotherFaultStaysOneAlsoOfAWorkerThatComesLater) {
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1});
  world.Dial(0);
  world.Ready(0, kNoSshd);
  world.Dial(1);
  auto faults = kNoSshd;
  faults.push_back({"tmp", "is full"});
  world.Ready(1, faults);
  world.Pass(10s, {0, 1});

  EXPECT_EQ(world.membership.phase(), LauncherPhase::kFinished);
  ASSERT_EQ(world.All<Finish>().size(), 1U);
  EXPECT_EQ(world.All<Finish>()[0].verdict.reason, control::kReasonPreflightFailed);
  EXPECT_THAT(
      world.All<Finish>()[0].verdict.message,
      testing::AllOf(testing::HasSubstr("'tmp'"), testing::Not(testing::HasSubstr("sshd"))));
}

TEST_P(AgentsStart, WorkersOpenMpisNeedNotMatch) {
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1});
  world.Arrive(0);
  world.Dial(1);
  world.Say(1, control::AgentReady{"10.0.0.2", 0, {}, {{"openmpi", "5.0.1"}}});
  if (elastic()) {
    for (const int slot : {0, 1}) world.Say(1, control::RankReady{slot, "first"});
  }
  world.Pass(100ms, {0, 1});

  EXPECT_EQ(world.membership.phase(), LauncherPhase::kRunning);
}

// The launcher's image has Open MPI; the workers' image has neither Open MPI nor sshd.
class NoSshd : public testing::TestWithParam<bool> {
 protected:
  static CoordinatorOptions First(bool elastic) {
    CoordinatorOptions options = World::Options(1, elastic);
    options.term = 1;
    return options;
  }
  void Begin(World& world, const std::vector<control::PreflightFault>& faults = kNoSshd) {
    world.Order({0, 1});
    for (const int worker : {0, 1}) {
      world.Dial(worker);
      world.Ready(worker, faults);
    }
    world.Pass(200ms, {0, 1});
  }
  const bool elastic_ = GetParam();
};

// Like NoSshd, but the workers' image also has Open MPI.
class OnlySshdIsMissing : public NoSshd {};

INSTANTIATE_TEST_SUITE_P(Jobs, NoSshd, testing::Bool());

TEST_P(NoSshd, TheAgentsStartTheRanks) {
  World world{First(elastic_)};

  Begin(world);

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world.All<StartMpirun>(), IsEmpty());
  EXPECT_EQ(world.membership.Status(world.now).started_by, control::kByAgents);
}

TEST_P(NoSshd, TheSameWhereMpirunsVersionIsKnownAfterThem) {
  World world{First(elastic_), /*has_mpirun=*/false};
  Begin(world);
  world.Take(world.membership.OnMpiVersion(world.now, "4.1.4"));

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_THAT(world.All<StartMpirun>(), IsEmpty());
}

TEST_P(NoSshd, IsAFaultIfTheJobConfiguresMpirun) {
  CoordinatorOptions options = First(elastic_);
  options.asks_for_mpirun = true;
  World world{options};

  Begin(world);

  ASSERT_TRUE(world.Decided());
  EXPECT_THAT(world.Verdict()->verdict.message, testing::HasSubstr("no orted"));
}

INSTANTIATE_TEST_SUITE_P(Jobs, OnlySshdIsMissing, testing::Bool());

TEST_P(OnlySshdIsMissing, MpirunReachesTheWorkersThroughTheirAgents) {
  World world{First(elastic_)};

  Begin(world, kOnlySshd);

  EXPECT_EQ(world.phase(), LauncherPhase::kStarting);
  const StartMpirun start = world.LastStart();
  EXPECT_TRUE(start.by_agent);
  ASSERT_EQ(start.hosts.size(), 2U);
  EXPECT_EQ(start.hosts[1].connection, World::Connection(1));
  const control::LauncherStatus status = world.membership.Status(world.now);
  EXPECT_EQ(status.started_by, control::kByMpirun);
  EXPECT_EQ(status.launch_agent, control::kLaunchByAgent);
  for (const control::WorkerReport& worker : status.workers) EXPECT_THAT(worker.faults, IsEmpty());
}

TEST_P(OnlySshdIsMissing, OnOneWorkerIsEnoughForAll) {
  World world{First(elastic_)};
  world.Order({0, 1});
  world.Arrive(0);
  world.Dial(1);
  world.Ready(1, kOnlySshd);
  world.Pass(200ms, {0, 1});

  EXPECT_TRUE(world.LastStart().by_agent);
}

TEST_P(OnlySshdIsMissing, IsAFaultWhereTheJobWantsSsh) {
  CoordinatorOptions options = First(elastic_);
  options.launch_agent = control::LaunchAgent::kSsh;
  options.asks_for_mpirun = true;
  World world{options};

  Begin(world, kOnlySshd);

  ASSERT_TRUE(world.Decided());
  EXPECT_THAT(world.Verdict()->verdict.message, testing::HasSubstr("no sshd"));
}

TEST_P(OnlySshdIsMissing, OfAnAgentThatRunsNoCommandsTheAgentsStartTheRanks) {
  World world{First(elastic_)};
  world.Order({0});
  control::AgentHello hello = world.MakeHello(0);
  hello.protocol = control::kProtocolOfCommands - 1;
  world.connections[0] = World::Connection(0);
  world.Take(world.membership.OnHello(world.now, World::Connection(0), hello));
  world.Ready(0, kOnlySshd);
  world.Pass(200ms, {0});

  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
  EXPECT_EQ(world.membership.Status(world.now).started_by, control::kByAgents);
}

TEST_P(NoSshd, IsNotRequiredIfTheJobUsesAgents) {
  CoordinatorOptions options = First(elastic_);
  options.launch_agent = control::LaunchAgent::kAgent;
  options.asks_for_mpirun = true;
  World world{options};
  Begin(world, {});

  EXPECT_TRUE(world.LastStart().by_agent);
}

TEST_P(NoSshd, SshIsTheWayOfWorkersThatHaveIt) {
  World world{First(elastic_)};
  Begin(world, {});

  EXPECT_FALSE(world.LastStart().by_agent);
  EXPECT_EQ(world.membership.Status(world.now).launch_agent, control::kLaunchBySsh);
}

TEST_P(NoSshd, IsAFaultOfAWorkerOnceMpirunHasStartedAWorld) {
  World world{First(elastic_)};
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);
  world.AttachAll();
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);
  world.Order({0, 1, 2});
  world.Dial(2);
  world.Ready(2, kNoSshd);
  world.Pass(200ms, {0, 1, 2});

  const control::LauncherStatus status = world.membership.Status(world.now);
  EXPECT_EQ(status.started_by, control::kByMpirun);
  EXPECT_THAT(status.workers[2].faults, testing::SizeIs(2));
}

TEST(AnMpiProgram, IsRefusedWhereAgentsStartTheRanksAndAtHomeUnderMpirun) {
  const control::PreflightFault mpi{control::kCheckMpiProgram, "needs MPI"};
  World through_agents{World::Options(1, false)};
  through_agents.Order({0});
  through_agents.Dial(0);
  through_agents.Ready(0, {kOnlySshd.front(), mpi});
  EXPECT_EQ(through_agents.phase(), LauncherPhase::kStarting);
  auto faults = kNoSshd;
  faults.push_back(mpi);
  World by_agents{World::Options(1, false)};
  by_agents.Order({0});
  by_agents.Dial(0);
  by_agents.Ready(0, faults);
  World by_mpirun{World::Options(1, false), /*has_mpirun=*/false};
  by_mpirun.Order({0});
  by_mpirun.Dial(0);
  by_mpirun.Ready(0, {mpi});
  by_mpirun.Take(by_mpirun.membership.OnMpiVersion(by_mpirun.now, "4.1.4"));

  ASSERT_TRUE(by_agents.Decided());
  EXPECT_THAT(by_agents.Verdict()->verdict.message, testing::HasSubstr("needs MPI"));
  EXPECT_EQ(by_mpirun.phase(), LauncherPhase::kStarting);
}

TEST(AgentsStartADirectJob, StopsAndStartsItAgainWithoutAnMpirunToWaitFor) {
  World world{World::Options(1, false), /*has_mpirun=*/false};
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);
  const control::Epoch first = world.membership.Status(world.now).epoch;
  ASSERT_EQ(world.membership.phase(), LauncherPhase::kRunning);

  world.Exit(1, -1, 9);
  world.Pass(2s, {0, 1});
  EXPECT_EQ(world.membership.phase(), LauncherPhase::kStopping);
  EXPECT_THAT(world.All<StopMpirun>(), IsEmpty());
  world.Exit(0, -1, 15);
  world.Pass(2s, {0, 1});

  EXPECT_EQ(world.membership.phase(), LauncherPhase::kRunning);
  EXPECT_GT(world.membership.Status(world.now).epoch, first);
  for (const int worker : {0, 1}) world.Exit(worker, 0);
  world.Pass(200ms, {0, 1});
  EXPECT_EQ(world.membership.phase(), LauncherPhase::kFinished);
  EXPECT_TRUE(world.All<Finish>()[0].verdict.succeeded);
}

// failOnExitCodes applies only to exit codes of the program, not to a port that is in use.
TEST(AgentsStartADirectJob, ARankThatCannotBeStartedNowIsTriedAgainUpToTheCrashLimit) {
  CoordinatorOptions options = World::Options(1, false);
  options.exit_codes.fail = {1};
  options.restart_limit = 0;
  options.crash_limit = 2;
  World world{options, /*has_mpirun=*/false};
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);
  const auto cannot_start = [&] {
    world.Exit(0, control::kExitNotStarted, 0, 0, {"port 20001 (MASTER_PORT) is in use"});
    world.Exit(1, 1);  // rank 1 exits because rank 0 is missing
    world.Pass(3s, {0, 1});
  };

  cannot_start();
  EXPECT_FALSE(world.Decided());
  ASSERT_EQ(world.phase(), LauncherPhase::kRunning);
  cannot_start();

  ASSERT_TRUE(world.Decided());
  EXPECT_EQ(world.Verdict()->verdict.reason, control::kReasonCrashLoop);
  EXPECT_THAT(world.Verdict()->verdict.message,
              testing::HasSubstr("could not be started: port 20001 (MASTER_PORT) is in use; "));
}

TEST(AgentsStartADirectJob, ACodeThatAgentsUseTooIsTheProgramsOwnWhereItExitedWithIt) {
  CoordinatorOptions options = World::Options(1, false);
  options.restart_limit = 0;
  World world{options, /*has_mpirun=*/false};
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);
  control::RankExited own;
  own.epoch = world.membership.epoch();
  own.exit.rank = 1;
  own.exit.exit_code = control::kExitNotStarted;

  world.Say(1, own);
  world.Pass(3s, {0, 1});

  ASSERT_TRUE(world.Decided()) << "it counts against the limit";
  EXPECT_EQ(world.Verdict()->verdict.reason, control::kReasonRankFailed);
  EXPECT_EQ(world.Verdict()->exit_code, control::kExitNotStarted);
  EXPECT_THAT(world.Verdict()->verdict.message, testing::HasSubstr("exited with code 80"));
}

TEST(AgentsStartADirectJob, TheRanksAreCountedThatItsProgramsStart) {
  CoordinatorOptions options = World::Options(1, false);
  options.ranks_per_process = 8;
  World world{options, /*has_mpirun=*/false};
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1});
  world.Arrive(0);
  world.Arrive(1);

  EXPECT_EQ(world.membership.Status(world.now).world_size, 16);
  for (const int worker : {0, 1}) world.Exit(worker, 0);
  world.Pass(200ms, {0, 1});
  ASSERT_TRUE(world.Decided());
  EXPECT_EQ(world.Verdict()->verdict.world_size, 16);
  EXPECT_EQ(world.Verdict()->verdict.message, "all 16 ranks completed");
}

// Tests a launcher whose predecessor was lost after the end of the program, before its verdict.
class AfterTheProgramHasCompleted : public testing::Test {
 protected:
  void SetUp() override {
    world.Take(world.membership.OnNoMpirun(world.now));
    world.Order({0, 1});
    for (const int worker : {0, 1}) {
      members.push_back({World::Uid(worker), "pod", "node", "10.0.0.1", 0, "", worker});
    }
    world.Dial(0);
    world.Say(0, control::WorldReport{kLast, members, {}});
    world.Ready(0);
    world.Dial(1);
  }

  static constexpr control::Epoch kLast{2, 5};
  World world{World::Options(1, false), /*has_mpirun=*/false};
  std::vector<control::Member> members;
};

TEST_F(AfterTheProgramHasCompleted, TheJobSucceedsWithoutAnotherRun) {
  ASSERT_FALSE(world.Decided()) << "worker 1 has not reported";

  world.Say(1, control::WorldReport{kLast, {}, {}});

  ASSERT_TRUE(world.Decided());
  EXPECT_TRUE(world.Verdict()->verdict.succeeded);
  EXPECT_EQ(world.Verdict()->verdict.message, "all 2 ranks completed");
  EXPECT_EQ(world.Verdict()->verdict.clean_exits, 2);
  EXPECT_EQ(world.Sent<control::StartEpoch>(), 0);
}

TEST_F(AfterTheProgramHasCompleted, ItRunsAgainIfItDidNotOnOneWorker) {
  world.Say(1, control::WorldReport{{2, 4}, {}, {}});  // not in the last world
  world.Ready(1);

  EXPECT_FALSE(world.Decided());
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
}

TEST_F(AfterTheProgramHasCompleted, ItRunsAgainIfAWorkerIsReplacedThatHasNotReported) {
  world.Order({0, 2});
  world.Dial(2);
  world.Ready(2);

  EXPECT_FALSE(world.Decided());
  EXPECT_EQ(world.phase(), LauncherPhase::kRunning);
}

TEST(AgentsStartADirectJob, OnWorkersOfTwoReleases) {
  World world{World::Options(1, false), /*has_mpirun=*/false};
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1});
  for (const int worker : {0, 1}) {
    world.Dial(worker);
    world.Say(worker,
              control::AgentReady{"10.0.0.1", 0, {}, {{"ringmaster", std::to_string(worker)}}});
  }
  world.Pass(100ms, {0, 1});

  EXPECT_EQ(world.membership.phase(), LauncherPhase::kRunning);
}

// Without sshd the worker has no port to probe, so it counts as lost if it is silent for long.
TEST(AgentsStartAnElasticJob, ALostWorkerWithoutSshdIsNotProbed) {
  World world{World::Options(1, true), /*has_mpirun=*/false};
  world.Take(world.membership.OnNoMpirun(world.now));
  world.Order({0, 1, 2});
  for (const int worker : {0, 1, 2}) {
    world.Dial(worker);
    world.Say(worker, control::AgentReady{"10.0.0." + std::to_string(worker + 1), 0, kNoSshd, {}});
    world.Say(worker, control::RankReady{0, "first"});
  }
  world.Pass(200ms, {0, 1, 2});
  ASSERT_EQ(world.membership.phase(), LauncherPhase::kRunning);

  world.Take(world.membership.OnClosed(world.now, World::Connection(2)));

  EXPECT_THAT(world.All<Probe>(), IsEmpty());
}

}  // namespace
}  // namespace ringmaster::launcher
