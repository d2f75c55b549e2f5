// The real trainer on several hosts: it learns, and the number of workers does not change what it
// learns.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using testing::HasSubstr;

class Training : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  static control::LaunchSpec Mnist(std::vector<std::string> flags) {
    control::LaunchSpec spec;
    spec.command = {TrainProgram(), "--workload=mnist", "--data=generated", "--seed=7"};
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

  // Loss by step, from rank 0's step log.
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

TEST_F(Training, ThreeWorkersTrainAndSayHowWell) {
  Job job(4, Mnist({"--global-batch=64", "--generated-samples=4096", "--epochs=1"}));

  const control::Verdict verdict = Run(&job, 3);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 3);
  ASSERT_TRUE(verdict.progress.has_value());
  EXPECT_GT(verdict.progress->accuracy, 0.5);
  EXPECT_EQ(verdict.progress->step, verdict.progress->total_steps);
  EXPECT_THAT(job.launcher().Log(), HasSubstr("accuracy"));
}

// Without momentum: with it, differences of one rounding grow a thousandfold within a hundred
// steps, whatever made them.
TEST_F(Training, TheSameSeedGivesTheSameLossesWithOneTwoAndThreeWorkers) {
  std::vector<std::vector<double>> curves;
  for (const int workers : {1, 2, 3}) {
    // Rank 0 writes it; hosts share all of the file system but /tmp.
    const std::string step_log = "/var/tmp/rmt-steps-" + std::to_string(getpid());
    Job job(1 + workers, Mnist({"--global-batch=48", "--steps=100", "--learning-rate=0.05",
                                "--momentum=0", "--step-log=" + step_log}));
    const control::Verdict verdict = Run(&job, workers);
    curves.push_back(Losses(ReadFile(step_log)));
    unlink(step_log.c_str());
    ASSERT_TRUE(verdict.succeeded) << verdict.message;
    ASSERT_GE(curves.back().size(), 100U);
  }

  for (const std::size_t other : {1U, 2U}) {
    double largest = 0;
    for (std::size_t step = 0; step < 100; ++step) {
      largest = std::max(largest, std::abs(curves[other][step] / curves[0][step] - 1));
    }
    std::printf("%zu workers: largest relative difference %.1e\n", other + 1, largest);
    EXPECT_LE(largest, 1e-4) << other + 1 << " workers";
  }
  EXPECT_LT(curves[0][99], curves[0][0]) << "it learned nothing";
}

}  // namespace
}  // namespace ringmaster::runtime_test
