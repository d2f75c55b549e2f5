#pragma once

// A test whose processes write logs that outlive them: into a new folder that all hosts see (they
// have a /tmp of their own, but share the rest), kept and named when the test fails.

#include <array>
#include <cstdio>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "tests/runtime/hosts.h"

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

  std::string logs_;
};

}  // namespace ringmaster::runtime_test
