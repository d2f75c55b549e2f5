// Tests ringmaster-bench as the command of a job: its ranks connect as those of a training job, and
// the launcher's log contains the table.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using testing::HasSubstr;

class BenchJob : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  static std::string Run(std::vector<std::string> arguments) {
    control::LaunchSpec spec;
    spec.command = {FromBuild(RINGMASTER_BENCH_PROGRAM)};
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    Job job(3, spec);
    job.StartLauncher();
    job.StartAgent(0);
    job.StartAgent(1);
    job.SendOrder({0, 1});
    const control::Verdict verdict = job.AwaitVerdict(Seconds(240));
    EXPECT_TRUE(verdict.succeeded) << verdict.message << job.Log();
    EXPECT_EQ(verdict.world_size, 2);
    return job.launcher().Log();
  }
};

TEST_F(BenchJob, MeasuresAndChecksAllReduceBetweenTwoWorkers) {
  const std::string log = Run({"allreduce", "-b", "8", "-e", "1M", "-f", "64", "-n", "2"});

  EXPECT_THAT(log, HasSubstr("nRanks 2"));
  EXPECT_THAT(log, HasSubstr("Out of bounds values : 0 OK"));
}

TEST_F(BenchJob, TrainsWithEveryFormatOnItsTwoWorkers) {
  const std::string log =
      Run({"compression", "--generated-samples=256", "--epochs=1", "--ranks=2"});

  EXPECT_THAT(log, HasSubstr("fp8-e4m3"));
  EXPECT_THAT(log, HasSubstr("with standard errors"));
}

TEST_F(BenchJob, ComparesItsTwoWorkersTogetherAndApart) {
  const std::string log =
      Run({"throughput", "--ranks=2", "--rounds=1", "--steps=5", "--generated-samples=256"});

  EXPECT_THAT(log, HasSubstr("of independent ranks"));
}

}  // namespace
}  // namespace ringmaster::runtime_test
