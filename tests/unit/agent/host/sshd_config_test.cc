#include "worker/agent/host/sshd_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

using testing::HasSubstr;
using testing::Not;

SshdSettings Settings() {
  return {.listen_address = "10.0.0.1",
          .port = 4022,
          .host_key_file = "/r/key",
          .authorized_keys_file = "/r/keys",
          .max_startups = 64,
          .environment = {}};
}

TEST(SshdConfig, NamesPortAddressAndKeys) {
  const std::string text = SshdConfigText(Settings());

  EXPECT_THAT(text, HasSubstr("Port 4022\n"));
  EXPECT_THAT(text, HasSubstr("ListenAddress 10.0.0.1\n"));
  EXPECT_THAT(text, HasSubstr("HostKey \"/r/key\"\n"));
  EXPECT_THAT(text, HasSubstr("AuthorizedKeysFile \"/r/keys\"\n"));
  EXPECT_THAT(text, HasSubstr("MaxStartups 64:100:64\n"));
  EXPECT_THAT(text, HasSubstr("PasswordAuthentication no\n"));
  EXPECT_THAT(text, HasSubstr("AllowTcpForwarding no\n"));
  EXPECT_THAT(text, Not(HasSubstr("SetEnv")));
}

TEST(SshdConfig, PutsTheEnvironmentOnOneLineAndEscapesIt) {
  SshdSettings settings = Settings();
  settings.environment = {{"A", "two words"}, {"B", "quote \" and \\"}};

  EXPECT_THAT(SshdConfigText(settings),
              HasSubstr("SetEnv \"A=two words\" \"B=quote \\\" and \\\\\"\n"));
}

TEST(SshdConfig, LeavesOutWhatCouldBreakOutOfTheLine) {
  SshdSettings settings = Settings();
  settings.environment = {{"A", "x\nPermitRootLogin yes"}, {"B C", "1"}, {"", "1"}, {"D", "kept"}};

  const std::string text = SshdConfigText(settings);

  EXPECT_THAT(text, HasSubstr("SetEnv \"D=kept\"\n"));
  EXPECT_THAT(text, Not(HasSubstr("PermitRootLogin yes")));
}

TEST(SshdConfig, SessionsGetTheContainersVariablesWithoutOurSecretsPaths) {
  const auto environment = SessionEnvironment({{"NCCL_DEBUG", "INFO"},
                                               {"HOME", "/root"},
                                               {"RINGMASTER_ITEM_SHA256", "{}"},
                                               {"RINGMASTER_CREDENTIALS_DIR", "/c"},
                                               {"RINGMASTER_POD_NAME", "worker-0"}},
                                              "/r/agent.sock", "/workspace/src", false);

  EXPECT_EQ(environment,
            (std::map<std::string, std::string>{{"NCCL_DEBUG", "INFO"},
                                                {"RINGMASTER_POD_NAME", "worker-0"},
                                                {"RINGMASTER_AGENT_SOCKET", "/r/agent.sock"},
                                                {"RINGMASTER_WORKING_DIR", "/workspace/src"},
                                                {"SHLVL", "1"}}));
}

TEST(SshdConfig, AContainerThatRunsAsRootLetsMpirunsDaemonDoSo) {
  const auto environment = SessionEnvironment({}, "/r/agent.sock", "", true);

  for (const char* program : {"PRTE", "OMPI"}) {
    EXPECT_EQ(environment.count(std::string(program) + "_ALLOW_RUN_AS_ROOT"), 1U);
    EXPECT_EQ(environment.count(std::string(program) + "_ALLOW_RUN_AS_ROOT_CONFIRM"), 1U);
  }
}

}  // namespace
}  // namespace ringmaster::agent
