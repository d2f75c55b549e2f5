#pragma once

// A test whose processes write logs to a new folder that all hosts share; each host has a private
// /tmp. If the test fails, the folder is kept and its path is printed.

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {

class LoggedTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
    std::array<char, 32> name{"/var/tmp/rmt-logs-XXXXXX"};
    logs_ = mkdtemp(name.data());
  }
  void TearDown() override {
    if (HasFailure()) {
      std::printf("the logs are kept in %s\n", logs_.c_str());
    } else if (!logs_.empty()) {
      std::filesystem::remove_all(logs_);
    }
  }

  // Returns a job that runs the real trainer with an audit log. `step_log` is a file, or "none".
  control::LaunchSpec TrainerSpec(std::int64_t steps, const std::string& step_log) const {
    control::LaunchSpec spec;
    spec.command = {TrainProgram(),
                    "--threads=1",  // the hosts share this machine's processors
                    "--workload=mnist",
                    "--data=generated",
                    "--generated-samples=2048",
                    "--seed=7",
                    "--global-batch=24",
                    "--steps=" + std::to_string(steps),
                    "--step-log=" + step_log,
                    "--log-every=1",
                    "--audit-log=" + logs_ + "/audit"};
    return spec;
  }
  Ran Audit(std::int64_t steps) const {
    return RunCommand(
        {AuditProgram(), logs_ + "/audit", "--expect-steps=" + std::to_string(steps)});
  }

  std::string logs_;
};

}  // namespace ringmaster::runtime_test
