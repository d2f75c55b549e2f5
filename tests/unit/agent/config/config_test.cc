#include "worker/agent/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"

namespace ringmaster::agent {
namespace {

using testing::HasSubstr;

Environment Valid() {
  control::LaunchSpec spec;
  spec.command = {"ringmaster-train"};
  spec.slots_per_worker = 2;
  return {{control::kEnvJobName, "digits"},
          {control::kEnvJobUid, "job"},
          {control::kEnvPodName, "digits-worker-3"},
          {control::kEnvPodUid, "pod"},
          {control::kEnvWorkerIndex, "3"},
          {control::kEnvLauncherAddress, "10.0.0.9"},
          {control::kEnvItemHashes, "{}"},
          {control::kEnvLaunchSpec, control::EncodeLaunchSpec(spec)}};
}

TEST(AgentConfig, ReadsWhatTheOperatorWrites) {
  const auto config = ReadConfig(Valid());

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->worker_index, 3);
  EXPECT_EQ(config->launcher_port, control::kControlPort);
  EXPECT_EQ(config->spec.slots_per_worker, 2);
  EXPECT_EQ(config->load_limit, std::chrono::minutes(10));
  EXPECT_EQ(config->AgentSocket(), std::string(control::kRuntimeDir) + "/agent.sock");
}

TEST(AgentConfig, ThePackagePrecedesTheUsersOwn) {
  Environment container;
  PutFirstInPythonPath("/ours", container);
  EXPECT_EQ(container["PYTHONPATH"], "/ours");

  container["PYTHONPATH"] = "/a:/b";
  PutFirstInPythonPath("/ours", container);
  EXPECT_EQ(container["PYTHONPATH"], "/ours:/a:/b");
}

TEST(AgentConfig, KnowsNothingOfANewerOperatorsVariablesAndDoesWithoutAnOlderOnes) {
  Environment environment = Valid();
  environment.erase(control::kEnvWorkerIndex);
  environment["RINGMASTER_LATER"] = "?";
  environment[control::kEnvLaunchSpec] = R"({"command":["ringmaster-train"],"later":[1]})";

  const auto config = ReadConfig(environment);

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->spec.slots_per_worker, 1);
  EXPECT_EQ(config->credentials_dir, control::kCredentialsDir);
  EXPECT_EQ(config->runtime_dir, control::kRuntimeDir);
}

TEST(AgentConfig, TakesTheJobsLimitAndKeepsForItsRanksWhatIsTheirs) {
  Environment environment = Valid();
  environment[control::kEnvLoadLimitMillis] = "90000";
  environment[control::kEnvConnectTimeoutSeconds] = "90";

  const auto config = ReadConfig(environment);

  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->load_limit, std::chrono::seconds(90));
  EXPECT_EQ(config->container.at(control::kEnvConnectTimeoutSeconds), "90");
}

TEST(AgentConfig, ADataCacheNeedsASourceAndAFolder) {
  EXPECT_FALSE(ReadConfig(Valid())->data_cache.has_value());
  Environment environment = Valid();
  environment[control::kEnvDataSource] = control::kDataSourceDir;
  EXPECT_THAT(ReadConfig(environment).error().message, HasSubstr(control::kEnvDataDir));
  environment[control::kEnvDataSubPath] = "glint360k";
  environment[control::kEnvDataDir] = control::kDataDir;

  const auto config = ReadConfig(environment);

  ASSERT_TRUE(config.ok()) << config.error().message;
  ASSERT_TRUE(config->data_cache.has_value());
  EXPECT_EQ(config->data_cache->source, control::kDataSourceDir);
  EXPECT_EQ(config->data_cache->sub_path, "glint360k");
  EXPECT_EQ(config->data_cache->folder, control::kDataDir);
}

TEST(AgentConfig, NamesTheVariableThatIsMissingOrWrong) {
  const std::map<std::string, std::string> broken = {
      {control::kEnvJobUid, ""},          {control::kEnvPodUid, ""},
      {control::kEnvItemHashes, ""},      {control::kEnvWorkerIndex, "three"},
      {control::kEnvLauncherPort, "0"},   {control::kEnvLauncherAddress, "launcher.svc"},
      {control::kEnvLaunchSpec, "{oops"}, {"RINGMASTER_GPUS", "-1"},
      {control::kEnvLoadLimitMillis, "0"}};
  for (const auto& [name, value] : broken) {
    Environment environment = Valid();
    environment[name] = value;

    const auto config = ReadConfig(environment);

    ASSERT_FALSE(config.ok()) << name;
    EXPECT_THAT(config.error().message, HasSubstr(name));
  }
}

}  // namespace
}  // namespace ringmaster::agent
