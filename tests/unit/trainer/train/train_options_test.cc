#include "worker/trainer/train/train_options.h"

#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "worker/trainer/train/shaping.h"

namespace ringmaster::trainer {
namespace {

Result<ParsedCommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ringmaster-train");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

std::vector<std::string> Texts(std::span<const char* const> names) {
  return {names.begin(), names.end()};
}

TEST(Shaping, EveryFlagIsClassedOnceAsShapingTrainingOrNot) {
  std::vector<std::string> classed = Texts(ShapingFlags());
  const std::vector<std::string> others = Texts(OtherFlags());
  classed.insert(classed.end(), others.begin(), others.end());

  EXPECT_THAT(classed, testing::UnorderedElementsAreArray(FlagNames()))
      << "a new flag of ringmaster-train belongs into one of the lists in shaping.cc";
}

// Returns how checkpoints describe a run with this flag and some others.
std::string ShapedWith(const std::string& flag) {
  const bool digits = flag.starts_with("--max-shift") || flag == "--workload=mnist" ||
                      flag == "--data=generated" || flag == "--precision=bf16";
  std::vector<const char*> arguments;
  if (!digits) arguments = {"--workload=partial-fc", "--data=synthetic", "--classes=10"};
  if (!flag.empty()) arguments.push_back(flag.c_str());
  const auto parsed = Parse(arguments);
  if (!parsed.ok()) return parsed.error().message;
  const TrainOptions& options = parsed->options;
  return ShapingOf(options, {.steps = options.steps > 0 ? options.steps : 10 * options.epochs,
                             .weight_decay = options.weight_decay.value_or(0),
                             .data = 1});
}

TEST(Shaping, AFlagThatShapesTrainingChangesTheTextAndAnotherDoesNot) {
  const std::map<std::string, std::string> changes{
      {"--workload", "mnist"},  {"--data", "generated"},    {"--generated-samples", "99"},
      {"--max-shift", "2"},     {"--global-batch", "32"},   {"--epochs", "7"},
      {"--steps", "99"},        {"--learning-rate", "0.5"}, {"--schedule", "constant"},
      {"--warmup-steps", "3"},  {"--weight-decay", "0.25"}, {"--momentum", "0.5"},
      {"--seed", "9"},          {"--not-finite", "skip"},   {"--compression", "bf16"},
      {"--precision", "bf16"},  {"--classes", "20"},        {"--embedding", "64"},
      {"--sample-rate", "0.5"}, {"--margin", "cosface"},    {"--scale", "30"},
      {"--backbone", "r18"},    {"--image-side", "64"},     {"--dense-update", "true"},
      {"--micro-batch", "16"}};
  for (const std::string& flag : Texts(ShapingFlags())) {
    ASSERT_TRUE(changes.contains(flag)) << flag << " needs a value here";
    EXPECT_NE(ShapedWith(flag + "=" + changes.at(flag)), ShapedWith("")) << flag;
  }
  for (const char* flag :
       {"--threads=3", "--log-every=7", "--checkpoint-every=9", "--timeout=7",
        "--gpu-release-limit=9", "--loader-threads=2", "--transport=gloo", "--replica-every=7"}) {
    EXPECT_EQ(ShapedWith(flag), ShapedWith("")) << flag;
  }
}

TEST(TrainOptions, NumbersWithWhichNothingCanBeComputedAreRefused) {
  for (const char* flag :
       {"--learning-rate=nan", "--weight-decay=nan", "--momentum=NaN", "--timeout=nan",
        "--bucket-mib=-nan", "--gpu-release-limit=nan", "--epochs=1073741825"}) {
    EXPECT_FALSE(Parse({flag}).ok()) << flag;
  }
  EXPECT_FALSE(Parse({"--workload=partial-fc", "--scale=nan"}).ok());
  EXPECT_TRUE(Parse({"--epochs=1073741824"}).ok());
}

TEST(TrainOptions, WhatToBeginWithIsOneThingAndNeedsAPlace) {
  EXPECT_EQ(Parse({"--checkpoint-dir=/v", "--restore-job=digits"})->options.restore_job, "digits");
  EXPECT_EQ(Parse({"--checkpoint-dir=/v", "--restore-path=a/b"})->options.restore_path, "a/b");
  EXPECT_FALSE(Parse({"--restore-path=a"}).ok());
  EXPECT_FALSE(Parse({"--checkpoint-dir=/v", "--restore-job=a", "--restore-path=b"}).ok());
  EXPECT_FALSE(Parse({"--checkpoint-dir=/v", "--restore-job=../a"}).ok());
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
  EXPECT_EQ(parsed->options.compression, Compression::kNone);
  EXPECT_EQ(parsed->options.log_every.steps, 0);
  EXPECT_EQ(parsed->options.log_every.time, std::chrono::seconds(1));
}

TEST(TrainOptions, TheJobsConnectTimeoutAppliesUnlessTheCommandSetsAnother) {
  ASSERT_EQ(setenv(control::kEnvConnectTimeoutSeconds, "90", 1), 0);
  const auto parsed = Parse({"--workload=mnist", "--data=generated"});
  const auto given = Parse({"--workload=mnist", "--data=generated", "--timeout=7"});
  unsetenv(control::kEnvConnectTimeoutSeconds);

  ASSERT_TRUE(parsed.ok() && given.ok());
  EXPECT_EQ(parsed->options.timeout, std::chrono::seconds(90));
  EXPECT_EQ(given->options.timeout, std::chrono::seconds(7));
}

TEST(TrainOptions, TheGpusTimeToReleaseAWorldIsFifteenSecondsUnlessTheCommandSetsAnother) {
  EXPECT_EQ(Parse({})->options.gpu_release_limit, std::chrono::seconds(15));
  EXPECT_EQ(Parse({"--gpu-release-limit=30.5"})->options.gpu_release_limit,
            std::chrono::milliseconds(30'500));
}

// At a rate of 0.03, the MNIST network's loss rises after thousands of steps with most seeds.
TEST(TrainOptions, TheUsualLearningRateIsOneAtWhichLongTrainingStaysStable) {
  EXPECT_EQ(Parse({})->options.learning_rate, 0.01);
}

TEST(TrainOptions, LogsByTheStepOrByTheSecond) {
  EXPECT_EQ(Parse({"--log-every=100"})->options.log_every.steps, 100);
  EXPECT_EQ(Parse({"--log-every=0.5s"})->options.log_every.time, std::chrono::milliseconds(500));
}

TEST(TrainOptions, EveryWorkloadHasSyntheticData) {
  EXPECT_TRUE(Parse({"--data=synthetic"}).ok());
  EXPECT_TRUE(Parse({"--workload=partial-fc", "--data=synthetic", "--classes=10"}).ok());
}

TEST(TrainOptions, KnowsTheFormatsInWhichGradientsTravel) {
  EXPECT_EQ(Parse({"--compression=bf16"})->options.compression, Compression::kBFloat16);
  EXPECT_EQ(Parse({"--bucket-mib=2.5"})->options.bucket_mib, 2.5);
  EXPECT_EQ(Parse({"--precision=bf16"})->options.precision, Precision::kBFloat16);
  EXPECT_EQ(Parse({"--precision=fp16"})->options.precision, Precision::kFloat16);
  EXPECT_EQ(Parse({})->options.precision, Precision::kFloat32);
  EXPECT_EQ(Parse({"--compression=fp8-e5m2"})->options.compression, Compression::kFloat8E5M2);
}

TEST(TrainOptions, KnowsWhatRanksReduceOver) {
  EXPECT_EQ(Parse({})->options.transport, HostTransport::kAuto);
  EXPECT_EQ(Parse({"--transport=gloo"})->options.transport, HostTransport::kGloo);
  EXPECT_EQ(Parse({"--transport=shared-memory"})->options.transport, HostTransport::kSharedMemory);
}

TEST(TrainOptions, TakesTheFlagsOfPartialFc) {
  const auto parsed =
      Parse({"--workload=partial-fc", "--data=synthetic", "--classes=1000000", "--embedding=256",
             "--sample-rate=0.2", "--margin=combined(1,0.3,0.2)", "--scale=32", "--backbone=r18",
             "--schedule=polynomial", "--warmup-steps=10"});

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const PartialFcFlags& flags = parsed->options.partial_fc;
  EXPECT_EQ(flags.classes, 1'000'000);
  EXPECT_EQ(flags.embedding, 256);
  EXPECT_EQ(flags.sample_rate, 0.2);
  EXPECT_EQ(flags.margin, "combined(1,0.3,0.2)");
  EXPECT_EQ(flags.scale, 32);
  EXPECT_EQ(flags.backbone, "r18");
  EXPECT_EQ(flags.replica_every, 100);
  EXPECT_EQ(parsed->options.warmup_steps, 10);
  EXPECT_EQ(parsed->options.weight_decay, std::nullopt);
}

TEST(TrainOptions, TheLastOfAFlagCounts) {
  const auto parsed =
      Parse({"--global-batch=256", "--step-log=/tmp/log", "--global-batch=64", "--step-log=none"});

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->options.global_batch, 64);
  EXPECT_EQ(parsed->options.step_log, "none");
}

TEST(TrainOptions, AnEmptyValueIsNoneWhateverTheEnvironmentSets) {
  ASSERT_EQ(setenv(control::kEnvCheckpointDir, "/checkpoints", 1), 0);
  const auto parsed =
      Parse({"--timeline=", "--audit-log=", "--checkpoint-dir=", "--snapshot-dir=", "--dry-run"});
  unsetenv(control::kEnvCheckpointDir);

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->command, TrainCommand::kDryRun);
  EXPECT_EQ(parsed->options.timeline, "");
  EXPECT_EQ(parsed->options.audit_log, "");
  EXPECT_EQ(parsed->options.checkpoint_dir, "");
  EXPECT_EQ(parsed->options.snapshot_dir, "");
}

TEST(TrainOptions, DataOfAJobIsItsCacheUnlessTheFlagSetsAnother) {
  ASSERT_EQ(setenv(control::kEnvDataDir, control::kDataDir, 1), 0);
  const auto in_a_job = Parse({});
  const auto chosen = Parse({"--data=generated"});
  unsetenv(control::kEnvDataDir);

  ASSERT_TRUE(in_a_job.ok() && chosen.ok());
  EXPECT_EQ(in_a_job->options.data, control::kDataDir);
  EXPECT_EQ(chosen->options.data, "generated");
  EXPECT_EQ(Parse({})->options.data, "generated");
}

TEST(TrainOptions, PrintsHelpAndVersion) {
  EXPECT_EQ(Parse({"--version"})->text,
            std::string("ringmaster-train ") + RINGMASTER_VERSION + "\n");
  EXPECT_THAT(Parse({"--help"})->text, ::testing::HasSubstr("--global-batch"));
  EXPECT_EQ(Parse({"--check-build"})->command, TrainCommand::kCheckBuild);
  EXPECT_EQ(Parse({"--dry-run"})->command, TrainCommand::kDryRun);
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
      {{"--micro-batch=0"}, "--micro-batch"},
      {{"--global-batch=many"}, "--global-batch"},
      {{"--workload=bert"}, "--workload"},
      {{"--device=tpu"}, "--device"},
      {{"--log-every=0"}, "must be a number of steps"},
      {{"--log-every=1m"}, "or a time, for example 1s"},
      {{"--log-every=-1s"}, "--log-every"},
      {{"--log-every=s"}, "--log-every"},
      {{"--compression=zip"}, "--compression"},
      {{"--transport=tcp"}, "--transport"},
      {{"--precision=fp64"}, "--precision"},
      {{"--precision=fp16", "--workload=partial-fc"}, "use --precision=bf16"},
      {{"--precision=fp16", "--compression=fp8-e4m3"}, "use --precision=bf16"},
      {{"--epochs=-1"}, "--epochs"},
      {{"--epochs=1", "--steps=5"}, "--steps"},
      {{"--seed=", "5"}, "--seed"},
      {{"--momentum=1"}, "--momentum"},
      {{"--bucket-mib=0"}, "--bucket-mib"},
      {{"--bucket-mib=large"}, "--bucket-mib"},
      {{"--check-build", "--dry-run"}, "--dry-run"},
      {{"--workload=partial-fc", "--data=synthetic"}, "--data=synthetic requires --classes"},
      {{"--workload=partial-fc", "--sample-rate=0"}, "--sample-rate must be above 0"},
      {{"--workload=partial-fc", "--sample-rate=1.5"}, "--sample-rate must be above 0"},
      {{"--workload=partial-fc", "--sample-rate=nan"}, "--sample-rate: nan is not a number"},
      {{"--workload=partial-fc", "--embedding=0"}, "--embedding"},
      {{"--workload=partial-fc", "--embedding=-3"}, "--embedding"},
      {{"--workload=partial-fc", "--backbone=r19"}, "--backbone"},
      {{"--workload=partial-fc", "--margin=softface"}, "--margin=softface is not a valid margin"},
      {{"--workload=partial-fc", "--margin=combined(1,2)"},
       "--margin=combined(1,2) is not a valid margin"},
      {{"--workload=partial-fc", "--margin=combined(9,0,0)"}, "m1 in [1,4]"},
      {{"--workload=partial-fc", "--data=synthetic", "--classes=3", "--world-size=4",
        "--store=/tmp/s"},
       "--classes=3 is less than --world-size=4"},
      {{"--workload=partial-fc", "--max-shift=2"}, "--max-shift cannot be used"},
      {{"--classes=10"},
       "--classes has no effect with --workload=mnist; remove it, or set "
       "--workload=partial-fc"},
      {{"--workload=mnist", "--dense-update"}, "--dense-update has no effect"},
      {{"--embedding=512"}, "--embedding has no effect"},
      {{"--learning-rate=-0.1"}, "--learning-rate"},
      {{"--timeout=0"}, "--timeout"},
      {{"--gpu-release-limit=4"}, "--gpu-release-limit"},
      {{"--gpu-release-limit=301"}, "--gpu-release-limit"},
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
