// Tests that output from the control channel has the format of mpirun's output.

#include "worker/launcher/mpi/tagged_output.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

TEST(TagLines, PutsTheRankInFrontOfEveryLine) {
  EXPECT_EQ(TagLines("1,3", false, "one\ntwo\n"), "[1,3]<stdout>: one\n[1,3]<stdout>: two\n");
  EXPECT_EQ(TagLines("1,0", true, "\n"), "[1,0]<stderr>: \n");
  EXPECT_EQ(TagLines("1,0", true, ""), "");
}

TEST(TagLines, EndsALineThatHasNoEnd) {
  EXPECT_EQ(TagLines("1,1", false, "half"), "[1,1]<stdout>: half\n");
}

}  // namespace
}  // namespace ringmaster::launcher
