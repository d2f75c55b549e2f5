#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "worker/agent/attach/attach.h"

namespace ringmaster::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Environment FromMpirun() {
  return {{control::kEnvAgentSocket, "/r/agent.sock"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
          {"OMPI_COMM_WORLD_RANK", "5"},
          {"OMPI_COMM_WORLD_SIZE", "8"}};
}

TEST(AttachArguments, TakesTheSlotFromMpirunsLocalRank) {
  const auto read = ReadAttachArguments({"--cohort=3"}, FromMpirun(), "host");

  ASSERT_TRUE(read.options.has_value()) << read.failure.message;
  EXPECT_EQ(read.options->socket, "/r/agent.sock");
  EXPECT_EQ(read.options->hello.cohort, 3);
  EXPECT_EQ(read.options->hello.slot, 1);
  EXPECT_EQ(read.options->hello.mpi_rank, 5);
  EXPECT_EQ(read.options->hello.mpi_world_size, 8);
  EXPECT_FALSE(read.options->hello.direct);
  EXPECT_THAT(read.options->program, IsEmpty());
  EXPECT_EQ(read.options->variables, (Environment{{"RANK", "5"},
                                                  {"WORLD_SIZE", "8"},
                                                  {"LOCAL_RANK", "1"},
                                                  {"LOCAL_WORLD_SIZE", "4"},
                                                  {kEnvHeartbeat, "/r/heartbeat-1"}}));
}

TEST(AttachArguments, TakesAProgramAfterTheDashes) {
  const auto read =
      ReadAttachArguments({"--cohort=3", "--", "sh", "-c", "--cohort=4"}, FromMpirun(), "host");

  ASSERT_TRUE(read.options.has_value());
  EXPECT_TRUE(read.options->hello.direct);
  EXPECT_THAT(read.options->program, ElementsAre("sh", "-c", "--cohort=4"));
}

TEST(AttachArguments, TheProgramRunsInTheContainersFolderUnlessMpirunSetsAnother) {
  Environment environment = FromMpirun();
  environment[kEnvWorkingDir] = "/workspace/src";

  EXPECT_EQ(ReadAttachArguments({"--cohort=3", "--", "./a"}, environment, "h").options->working_dir,
            "/workspace/src");
  EXPECT_EQ(ReadAttachArguments({"--cohort=3", "--stay", "--", "./a"}, environment, "h")
                .options->working_dir,
            "");
  EXPECT_EQ(ReadAttachArguments({"--cohort=3"}, FromMpirun(), "h").options->working_dir, "");
}

TEST(AttachArguments, ReportsThatAHostWithoutAgentIsNoWorker) {
  Environment environment = FromMpirun();
  environment.erase(control::kEnvAgentSocket);

  const auto read = ReadAttachArguments({"--cohort=3"}, environment, "launcher-1");

  EXPECT_EQ(read.failure.exit_code, control::kExitNoAgent);
  EXPECT_THAT(read.failure.message, HasSubstr(control::kNoAgentText));
  EXPECT_THAT(read.failure.message, HasSubstr("launcher-1"));
}

TEST(AttachArguments, PassesOverFlagsOfANewerLauncher) {
  const auto read = ReadAttachArguments({"--later=7", "--cohort=3"}, FromMpirun(), "host");

  ASSERT_TRUE(read.options.has_value()) << read.failure.message;
  EXPECT_EQ(read.options->hello.cohort, 3);
}

TEST(AttachArguments, RefusesWhatCannotBeRight) {
  const std::vector<std::vector<std::string>> wrong = {
      {}, {"--cohort=x"}, {"--cohort=-1"}, {"--cohort=1", "verbose"}, {"--cohort=1", "--"}};
  for (const auto& arguments : wrong) {
    EXPECT_FALSE(ReadAttachArguments(arguments, FromMpirun(), "host").options.has_value());
  }
  EXPECT_FALSE(ReadAttachArguments({"--cohort=1"}, {{control::kEnvAgentSocket, "/s"}}, "host")
                   .options.has_value());
}

}  // namespace
}  // namespace ringmaster::agent
