// Tests the text that describes a rank's threads, made from data of the kernel and of the rank.

#include "worker/agent/process_table/stack_text.h"

#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

TEST(StackText, PutsEachThreadsFramesUnderIt) {
  const std::vector<ThreadInfo> threads = {
      {.id = 17, .name = "ringmaster-trai", .state = 'S', .wchan = "futex_wait", .syscall = "202"},
      {.id = 19, .name = "gloo", .state = 'D', .wchan = "", .syscall = ""}};
  const std::string written =
      "thread 19\n"
      "/lib/x86_64-linux-gnu/libc.so.6(recv+0x1f) [0x7f01]\n"
      "thread 17\n"
      "/opt/bin/ringmaster-train(_ZN10ringmaster4SpinEi+0x1) [0x55]\n"
      "/lib/libc.so.6(+0x29d90) [0x7f02]\n";

  EXPECT_EQ(StackText(threads, 5, written),
            "thread 17 ringmaster-trai, sleeping in futex_wait, system call 202\n"
            "  #0 ringmaster-train(ringmaster::Spin(int)+0x1)\n"
            "  #1 libc.so.6(+0x29d90)\n"
            "thread 19 gloo, in an uninterruptible wait\n"
            "  #0 libc.so.6(recv+0x1f)\n"
            "and 3 more threads\n");
}

TEST(StackText, SurvivesAnyText) {
  const std::vector<ThreadInfo> threads = {{.id = 1, .name = "a", .state = 'R'}};
  for (const char* written : {"", "\n\n", "thread", "thread x\nframe", "frame before any thread\n",
                              "thread 1\n)(", "thread 1\n+(", "thread 99999999999999\n(a"}) {
    EXPECT_TRUE(StackText(threads, 1, written).starts_with("thread 1 a, running\n")) << written;
  }
}

TEST(StackText, AbbreviatesFrames) {
  const std::pair<const char*, std::string> cases[] = {
      {"/usr/lib/libc.so.6(read+0x1) [0x7f]", "libc.so.6(read+0x1)"},
      {"/bin/program(i+0x1) [0x7f]", "program(i+0x1)"},  // a C function named i, not the type int
      {"libc.so.6(+0x1) [0x7f]", "libc.so.6(+0x1)"},
      {"/usr/lib/lib.so(_ZNSt6vectorIiSaIiEE9push_backEOi+0x5) [0x7f]",
       "lib.so(std::vector<int, std::allocator<int> >::push_back(int&&)+0x5)"},
      {"/usr/lib/libc.so.6 [0x7f]", "libc.so.6"},
      {"[0x7f]", "[0x7f]"},
      {"", ""},
      {"lib.so(no end", "lib.so(no end)"},
      {"lib.so(name)", "lib.so(name)"},
  };
  for (const auto& [frame, text] : cases) EXPECT_EQ(FrameText(frame), text) << frame;
  EXPECT_LT(FrameText("l(" + std::string(5000, 'x') + "+0x1) [0]").size(), 150U);
}

TEST(StackText, IsCutAtALine) {
  const std::string text = "first line\nsecond line\nthird line\n";
  EXPECT_EQ(Shortened(text, text.size()), text);
  const std::string cut =
      Shortened(std::string(100, 'a') + "\n" + std::string(100, 'b') + "\n", 180);
  EXPECT_LE(cut.size(), 180U);
  EXPECT_EQ(cut, std::string(100, 'a') + "\n... (the rest is in the agent's log)\n");
  EXPECT_EQ(Shortened(std::string(1000, 'a'), 100), "... (the rest is in the agent's log)\n");
  for (std::size_t end = 0; end < 100; ++end) {  // the limit applies to lines of any length
    EXPECT_LE(Shortened(std::string(end, 'a') + '\n' + std::string(200, 'b'), 100).size(), 100U);
  }
}

TEST(ThreadList, ReadsTheStateBehindAnyName) {
  const std::pair<const char*, char> cases[] = {{"1 (sh) S 0 1", 'S'},
                                                {"1 (a) R (b) T 0", 'T'},
                                                {"1 (sh)", '?'},
                                                {"1 (sh) ", '?'},
                                                {"", '?'}};
  for (const auto& [stat, state] : cases) EXPECT_EQ(StateIn(stat), state) << stat;
}

}  // namespace
}  // namespace ringmaster::agent
