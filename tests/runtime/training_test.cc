// Tests the real trainer on several hosts: it learns, and the losses do not depend on the number of
// workers.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using testing::HasSubstr;

class Training : public testing::Test {
 public:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  static control::LaunchSpec Mnist(std::vector<std::string> flags) {
    control::LaunchSpec spec;
    spec.command = {TrainProgram(), "--threads=1", "--workload=mnist", "--data=generated"};
    spec.command.insert(spec.command.end(), flags.begin(), flags.end());
    return spec;
  }

  static control::Verdict Run(Job* job, int workers) {
    job->StartLauncher();
    std::vector<int> all;
    for (int worker = 0; worker < workers; ++worker) {
      job->StartAgent(worker);
      all.push_back(worker);
    }
    job->SendOrder(all);
    return job->AwaitVerdict(Seconds(240));
  }

  // Returns the loss of each step, from rank 0's step log.
  static std::vector<double> Losses(const std::string& step_log) {
    std::vector<double> losses;
    std::istringstream lines(step_log);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("step") && json.contains("loss")) {
        losses.push_back(json["loss"].get<double>());
      }
    }
    return losses;
  }
};

TEST_F(Training, ThreeWorkersTrainAndReportTheirAccuracy) {
  Job job(4, Mnist({"--global-batch=64", "--generated-samples=4096", "--epochs=1",
                    "--learning-rate=0.03"}));

  const control::Verdict verdict = Run(&job, 3);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 3);
  ASSERT_TRUE(verdict.progress.has_value());
  EXPECT_GT(verdict.progress->accuracy, 0.5);
  EXPECT_EQ(verdict.progress->step, verdict.progress->total_steps);
  EXPECT_THAT(job.launcher().Log(), HasSubstr("accuracy"));
}

// Returns the largest relative difference between the losses of 100 steps with 1 worker and with 2
// or 3. Trains without momentum, with which a single rounding difference grows by a factor of a
// thousand within a hundred steps.
double LargestDifference(int seed) {
  std::vector<std::vector<double>> curves;
  for (const int workers : {1, 2, 3}) {
    // Rank 0 writes this file on its host. Hosts share the file system except /tmp.
    const std::string step_log = "/var/tmp/rmt-steps-" + std::to_string(getpid());
    Job job(1 + workers, Training::Mnist({"--seed=" + std::to_string(seed), "--global-batch=48",
                                          "--steps=100", "--learning-rate=0.05", "--momentum=0",
                                          "--log-every=1", "--step-log=" + step_log}));
    const control::Verdict verdict = Training::Run(&job, workers);
    curves.push_back(Training::Losses(ReadFile(step_log)));
    unlink(step_log.c_str());
    EXPECT_TRUE(verdict.succeeded) << verdict.message;
    EXPECT_EQ(curves.back().size(), 100U);
    if (testing::Test::HasFailure()) return INFINITY;
  }
  EXPECT_LT(curves[0][99], curves[0][0]) << "it learned nothing";
  double largest = 0;
  for (const std::size_t other : {1U, 2U}) {
    for (std::size_t step = 0; step < 100; ++step) {
      largest = std::max(largest, std::abs(curves[other][step] / curves[0][step] - 1));
    }
  }
  std::printf("seed %d: largest relative difference %.1e\n", seed, largest);
  return largest;
}

// In about one run in twenty, a value is so close to the threshold of a rectifier or pool that
// rounding decides the result, and the loss curve jumps. Therefore only one seed of three must
// agree: a sample used twice, or a wrong mean, would change the losses with every seed.
TEST_F(Training, TheSameSeedGivesTheSameLossesWithOneTwoAndThreeWorkers) {
  double smallest = INFINITY;
  for (const int seed : {8, 9, 7}) {
    smallest = std::min(smallest, LargestDifference(seed));
    if (smallest <= 1e-4 || HasFailure()) break;
  }
  EXPECT_LE(smallest, 1e-4);
}

}  // namespace
}  // namespace ringmaster::runtime_test
