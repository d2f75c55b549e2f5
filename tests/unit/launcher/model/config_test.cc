// Tests the settings that the launcher reads from its environment.

#include "worker/launcher/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "worker/launcher/model/coordinator_options.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Environment Whole() {
  control::LaunchSpec spec;
  spec.command = {"ringmaster-train"};
  return {{control::kEnvJobUid, "job"},
          {control::kEnvTerm, "3"},
          {control::kEnvLaunchSpec, control::EncodeLaunchSpec(spec)}};
}

TEST(LauncherConfig, HasTheDocumentedLimits) {
  const auto config = ReadConfig(Whole());

  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->heartbeat, 100ms);
  EXPECT_EQ(config->lost_after, 2000ms);
  EXPECT_EQ(config->restart_limit, 10);
  EXPECT_EQ(config->crash_limit, 5);
  EXPECT_EQ(config->restart_window, 1h);
  EXPECT_EQ(config->stall_floor, 2000ms);
  EXPECT_EQ(config->start_wait, 30s);
}

TEST(LauncherConfig, KnowsNothingOfANewerOperatorsVariables) {
  Environment environment = Whole();
  environment["RINGMASTER_LATER"] = "?";
  environment[control::kEnvLaunchSpec] = R"({"command":["ringmaster-train"],"later":[1]})";

  const auto config = ReadConfig(environment);

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->api_port, control::kApiPort);
}

TEST(LauncherConfig, TakesLimitsFromTheEnvironment) {
  Environment environment = Whole();
  environment[control::kEnvHeartbeatMillis] = "50";
  environment[control::kEnvLostAfterMillis] = "300";
  environment[control::kEnvRestartLimit] = "0";
  environment[control::kEnvRestartWindowSeconds] = "90";
  environment[control::kEnvCrashLimit] = "3";
  environment[control::kEnvFailOnExitCodes] = "3,41";
  environment[control::kEnvIgnoreExitCodes] = "77";
  environment[control::kEnvStallMillis] = "0";
  environment[control::kEnvStartWaitSeconds] = "0";

  const auto config = ReadConfig(environment);

  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->heartbeat, 50ms);
  EXPECT_EQ(config->lost_after, 300ms);
  EXPECT_EQ(config->restart_limit, 0);
  EXPECT_EQ(config->restart_window, 90s);
  EXPECT_EQ(config->crash_limit, 3);
  EXPECT_EQ(config->exit_codes.fail, (std::set<int>{3, 41}));
  EXPECT_EQ(config->exit_codes.ignored, std::set<int>{77});
  EXPECT_EQ(config->stall_floor, 0ms);
  EXPECT_EQ(config->start_wait, 0s);
}

TEST(LauncherConfig, TheCoordinatorJudgesByTheJobsLimits) {
  Environment environment = Whole();
  environment[control::kEnvLostAfterMillis] = "5000";
  environment[control::kEnvStallMillis] = "60000";
  environment[control::kEnvStopGraceSeconds] = "30";
  environment[control::kEnvStartWaitSeconds] = "120";

  const CoordinatorOptions options = OptionsFrom(*ReadConfig(environment), "token");

  EXPECT_EQ(options.lost_after, 5s);
  EXPECT_EQ(options.stall_floor, 60s);
  EXPECT_EQ(options.stop_grace, 30s);
  EXPECT_EQ(options.stop_within, 34s);
  EXPECT_EQ(options.partial_after, 120s);
  EXPECT_EQ(options.agent_token, "token");
  EXPECT_EQ(options.ranks_per_process, 1);
  EXPECT_FALSE(options.asks_for_mpirun);

  control::LaunchSpec spec;
  spec.command = {"x"};
  spec.ranks_per_process = 8;
  spec.mpi_extra_args = {"-v"};
  environment[control::kEnvLaunchSpec] = control::EncodeLaunchSpec(spec);
  const CoordinatorOptions others = OptionsFrom(*ReadConfig(environment), "token");
  EXPECT_EQ(others.ranks_per_process, 8);
  EXPECT_TRUE(others.asks_for_mpirun);
  EXPECT_EQ(others.launch_agent, control::LaunchAgent::kAuto);

  spec.mpi_extra_args.clear();
  spec.launch_agent = control::LaunchAgent::kAgent;
  environment[control::kEnvLaunchSpec] = control::EncodeLaunchSpec(spec);
  const CoordinatorOptions by_agent = OptionsFrom(*ReadConfig(environment), "token");
  EXPECT_EQ(by_agent.launch_agent, control::LaunchAgent::kAgent);
  EXPECT_TRUE(by_agent.asks_for_mpirun);
}

TEST(LauncherConfig, RefusesLimitsThatCannotWork) {
  struct Case {
    const char* name;
    const char* value;
  };
  for (const Case& c :
       {Case{control::kEnvLostAfterMillis, "199"}, Case{control::kEnvLostAfterMillis, "soon"},
        Case{control::kEnvHeartbeatMillis, "0"}, Case{control::kEnvHeartbeatMillis, "-1"},
        Case{control::kEnvRestartLimit, "many"}, Case{control::kEnvStallMillis, "-5"},
        Case{control::kEnvStartWaitSeconds, "86401"}, Case{control::kEnvStopGraceSeconds, "3601"},
        Case{control::kEnvFailOnExitCodes, "3,,4"}, Case{control::kEnvIgnoreExitCodes, "256"}}) {
    Environment environment = Whole();
    environment[c.name] = c.value;
    const auto config = ReadConfig(environment);
    ASSERT_FALSE(config.ok()) << c.name << "=" << c.value;
    EXPECT_THAT(config.error().message, HasSubstr("RINGMASTER_"));
  }
}

}  // namespace
}  // namespace ringmaster::launcher
