// Tests which settings of NCCL are rejected.

#include "worker/trainer/comm/nccl/nccl_api.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

// The setting is rejected before NCCL is loaded.
TEST(LoadNccl, RefusesCallsThatBlock) {
  ASSERT_EQ(::setenv("NCCL_COMM_BLOCKING", "1", 1), 0);
  const Result<NcclApi> loaded = LoadNccl();
  ::unsetenv("NCCL_COMM_BLOCKING");

  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(loaded.error().message, testing::HasSubstr("NCCL_COMM_BLOCKING=1"));
}

TEST(NcclSetting, TheEnvironmentComesBeforeTheUsersFileAndThatBeforeTheSites) {
  const TemporaryFolder folder;
  const std::string site = folder.path() + "/nccl.conf";
  const std::string users = folder.path() + "/users.conf";
  std::ofstream(site) << "# NCCL_A=0\nNCCL_A=site\r\nNCCL_A=later\nNCCL_B=site\nNCCL_C=site\n";
  std::ofstream(users) << "NCCL_BB=no\nNCCL_B=a=b\nNCCL_C=user\n";
  ::setenv("NCCL_CONF_FILE", users.c_str(), 1);
  ::setenv("NCCL_C", "", 1);

  EXPECT_EQ(NcclSetting("NCCL_A", site), "site");
  EXPECT_EQ(NcclSetting("NCCL_B", site), "a=b");
  EXPECT_EQ(NcclSetting("NCCL_C", site), "");
  EXPECT_EQ(NcclSetting("NCCL_D", site), std::nullopt);
  ::unsetenv("NCCL_CONF_FILE");
  ::unsetenv("NCCL_C");
}

}  // namespace
}  // namespace ringmaster::trainer
