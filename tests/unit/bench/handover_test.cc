#include "worker/bench/training/handover.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ringmaster::bench {
namespace {

TEST(Handover, BringsAChildsTextToItsParent) {
  const Handover handover;
  EXPECT_EQ(handover.Read(), "");
  const std::string text(10'000, 'x');

  const pid_t child = ::fork();
  if (child == 0) {
    handover.Write(text);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);

  EXPECT_EQ(handover.Read(), text);
}

}  // namespace
}  // namespace ringmaster::bench
