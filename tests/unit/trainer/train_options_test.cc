#include "worker/trainer/train_options.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "common/control/pod_contract.h"

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
  EXPECT_EQ(parsed->options.compression, Compression::kNone);
  EXPECT_EQ(parsed->options.log_every.steps, 0);
  EXPECT_EQ(parsed->options.log_every.time, std::chrono::seconds(1));
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
  EXPECT_TRUE(Parse({"--bucket-mib=auto"})->options.tune_buckets);
  EXPECT_FALSE(Parse({"--bucket-mib=auto", "--bucket-mib=2.5"})->options.tune_buckets);
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
  EXPECT_EQ(flags.buddy_every, 100);
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

TEST(TrainOptions, DataOfAJobIsItsCacheUnlessTheFlagSaysOtherwise) {
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
      {{"--global-batch=many"}, "--global-batch"},
      {{"--workload=bert"}, "--workload"},
      {{"--device=tpu"}, "--device"},
      {{"--log-every=0"}, "neither a number of steps"},
      {{"--log-every=1m"}, "nor a time, as in 1s"},
      {{"--log-every=-1s"}, "--log-every"},
      {{"--log-every=s"}, "--log-every"},
      {{"--compression=zip"}, "--compression"},
      {{"--transport=tcp"}, "--transport"},
      {{"--mpi", "--transport=gloo"}, "leave --transport out"},
      {{"--precision=fp64"}, "--precision"},
      {{"--precision=fp16", "--workload=partial-fc"}, "use --precision=bf16"},
      {{"--precision=fp16", "--compression=fp8-e4m3"}, "use --precision=bf16"},
      {{"--epochs=-1"}, "--epochs"},
      {{"--epochs=1", "--steps=5"}, "--steps"},
      {{"--momentum=1"}, "--momentum"},
      {{"--bucket-mib=0"}, "--bucket-mib"},
      {{"--bucket-mib=large"}, "--bucket-mib"},
      {{"--bucket-mib=auto", "--compression=fp16"}, "--bucket-mib=auto is not for --compression"},
      {{"--bucket-mib=auto", "--membership-schedule=/tmp/schedule", "--store=/tmp/s"},
       "the number that the job's log names"},
      {{"--check-build", "--dry-run"}, "--dry-run"},
      {{"--workload=partial-fc", "--data=synthetic"}, "--data=synthetic needs --classes"},
      {{"--workload=partial-fc", "--sample-rate=0"}, "--sample-rate must be above 0"},
      {{"--workload=partial-fc", "--sample-rate=1.5"}, "--sample-rate must be above 0"},
      {{"--workload=partial-fc", "--sample-rate=nan"}, "--sample-rate must be above 0"},
      {{"--workload=partial-fc", "--embedding=0"}, "--embedding"},
      {{"--workload=partial-fc", "--embedding=-3"}, "--embedding"},
      {{"--workload=partial-fc", "--backbone=r19"}, "--backbone"},
      {{"--workload=partial-fc", "--margin=softface"}, "--margin=softface is no margin"},
      {{"--workload=partial-fc", "--margin=combined(1,2)"}, "--margin=combined(1,2) is no margin"},
      {{"--workload=partial-fc", "--margin=combined(9,0,0)"}, "m1 in [1,4]"},
      {{"--workload=partial-fc", "--data=synthetic", "--classes=3", "--world-size=4",
        "--store=/tmp/s"},
       "--classes=3 is less than --world-size=4"},
      {{"--workload=partial-fc", "--max-shift=2"}, "--max-shift is not for"},
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
