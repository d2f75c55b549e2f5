#include "operator/job/policy/change_policy.h"

#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;
using Fields = std::vector<std::string>;

// Which field changes which path: run_pin_test.
TEST(ChangePolicy, NamesAHandfulOfFields) {
  const api::TrainingJobSpec pinned = JobBuilder().Build().spec;
  api::TrainingJobSpec today = pinned;
  today.command = {"other"};
  today.image = "other";
  EXPECT_EQ(ChangedFields(pinned, today), (Fields{"spec.command", "spec.image"}));

  today.mpi_env = {"A"};
  today.mpi_extra_args = {"--verbose"};
  today.network_interface = "eth1";
  today.ssh_port = 2200;
  today.host_network = true;
  EXPECT_EQ(ChangedFields(pinned, today).size(), 5U);
}

TEST(ChangePolicy, TextsThatAreTooLongToReadHaveChanged) {
  const api::TrainingJobSpec pinned = JobBuilder().Build().spec;
  api::TrainingJobSpec today = pinned;
  today.texts = api::TrainingJobSpec::Texts::kTooLong;
  today.longest_text = "spec.command";

  EXPECT_EQ(ChangedFields(pinned, today), Fields{"spec.command"});
}

}  // namespace
}  // namespace ringmaster::job
