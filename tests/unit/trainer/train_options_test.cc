#include "worker/trainer/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace ringmaster::trainer {
namespace {

Result<ParsedCommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ringmaster-train");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

TEST(TrainOptions, TakesTheFlagsOfASample) {
  const auto parsed = Parse({"--workload=mnist", "--data=/data", "--global-batch=256", "--epochs=7",
                             "--timeout=2.5", "--learning-rate=0.1", "--step-log=/tmp/log"});

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->command, TrainCommand::kTrain);
  EXPECT_EQ(parsed->options.data, "/data");
  EXPECT_EQ(parsed->options.global_batch, 256);
  EXPECT_EQ(parsed->options.epochs, 7);
  EXPECT_EQ(parsed->options.timeout.count(), 2500);
  EXPECT_EQ(parsed->options.world_size, 0);
}

TEST(TrainOptions, TheLastOfAFlagCounts) {
  const auto parsed =
      Parse({"--global-batch=256", "--step-log=/tmp/log", "--global-batch=64", "--step-log=none"});

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->options.global_batch, 64);
  EXPECT_EQ(parsed->options.step_log, "none");
}

TEST(TrainOptions, PrintsHelpAndVersion) {
  EXPECT_EQ(Parse({"--version"})->text,
            std::string("ringmaster-train ") + RINGMASTER_VERSION + "\n");
  EXPECT_THAT(Parse({"--help"})->text, ::testing::HasSubstr("--global-batch"));
  EXPECT_EQ(Parse({"--check-build"})->command, TrainCommand::kCheckBuild);
}

TEST(TrainOptions, RefusesWrongFlagsWithASentence) {
  struct Case {
    std::vector<const char*> arguments;
    const char* says;
  };
  const std::vector<Case> cases = {
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"stray"}, "stray"},
      {{"--global-batch=0"}, "--global-batch"},
      {{"--global-batch=many"}, "--global-batch"},
      {{"--workload=bert"}, "--workload"},
      {{"--device=tpu"}, "--device"},
      {{"--epochs=-1"}, "--epochs"},
      {{"--epochs=1", "--steps=5"}, "--steps"},
      {{"--momentum=1"}, "--momentum"},
      {{"--learning-rate=-0.1"}, "--learning-rate"},
      {{"--timeout=0"}, "--timeout"},
      {{"--rank=1"}, "--world-size"},
      {{"--rank=2", "--world-size=2", "--store=/tmp/s"}, "--rank"},
      {{"--world-size=2"}, "--store"},
      {{"--membership-schedule=/tmp/schedule"}, "--store"},
      {{"--membership-schedule=/tmp/schedule", "--world-size=2", "--store=/tmp/s"}, "--world-size"},
  };

  for (const Case& c : cases) {
    const auto parsed = Parse(c.arguments);

    ASSERT_FALSE(parsed.ok()) << c.arguments.front();
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(parsed.error().message, ::testing::HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace ringmaster::trainer
