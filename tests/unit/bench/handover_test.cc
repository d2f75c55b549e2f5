#include "worker/bench/harness/handover.h"

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

TEST(InAProcess, ReturnsTheChildsTextIfItSucceeded) {
  const auto said = InAProcess([] { return std::string("here"); });
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->text, "here");
  EXPECT_GT(said->peak_kib, 0);

  EXPECT_FALSE(InAProcess([]() -> std::string { ::_exit(3); }).has_value());
}

}  // namespace
}  // namespace ringmaster::bench
