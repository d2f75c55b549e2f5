#include "worker/agent/host/program_signs.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/trainer/temporary_folder.h"
#include "worker/agent/config/config.h"

namespace ringmaster::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ProgramSigns, AreItsStartItsOutputAndItsHeartbeatFile) {
  const trainer::TemporaryFolder folder;
  const control::Epoch first{1, 1};
  const control::Epoch next{1, 2};
  ProgramSigns signs(folder.path());
  ProgramSigns::Time now{std::chrono::hours(1)};

  EXPECT_EQ(signs.Still(now, 0, first), seconds(0));
  now += seconds(5);
  EXPECT_EQ(signs.Still(now, 0, first), seconds(5));
  signs.Printed(now, 0);
  now += milliseconds(700);
  EXPECT_EQ(signs.Still(now, 0, first), milliseconds(700));
  EXPECT_EQ(signs.Still(now, 1, first), seconds(0)) << "another slot";

  std::ofstream(HeartbeatFile(folder.path(), 0)).flush();
  EXPECT_EQ(signs.Still(now, 0, first), seconds(0));
  now += seconds(9);
  EXPECT_EQ(signs.Still(now, 0, first), seconds(9)) << "it was touched once";

  EXPECT_EQ(signs.Still(now, 0, next), seconds(0)) << "started again";
}

}  // namespace
}  // namespace ringmaster::agent
