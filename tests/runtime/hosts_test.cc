// Tests that Hosts removes all its objects, even if the program is killed, and limits CPU time.

#include "tests/runtime/hosts.h"

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ringmaster::runtime_test {
namespace {

// Returns whether a namespace or a link of this process's hosts still exists.
bool Left(pid_t owner) {
  const std::string prefix = "rmt" + std::to_string(owner);
  return RunCommand({"ip", "netns", "list"}).output.find(prefix + "h") != std::string::npos ||
         RunCommand({"ip", "-o", "link"}).output.find(prefix) != std::string::npos;
}

// Returns in how many periods the processes of a control group used up their CPU time.
int Throttled(const std::string& group) {
  std::istringstream words(ReadFile(group + "/cpu.stat"));
  std::string name;
  for (int64_t value = 0; words >> name >> value;) {
    if (name == "nr_throttled") return static_cast<int>(value);
  }
  return 0;
}

class HostsTest : public testing::TestWithParam<int> {};

TEST_P(HostsTest, AreRemovedWhenASignalEndsTheirProgram) {
  if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  int ready[2] = {-1, -1};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t program = fork();
  if (program == 0) {
    const Hosts hosts(2);
    const auto runs = hosts.Start(0, "host-0", {}, {"/bin/sleep", "1000"}, "/dev/null");
    [[maybe_unused]] const auto said = write(ready[1], "x", 1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_TRUE(Left(program));

  kill(program, GetParam());
  int status = 0;
  waitpid(program, &status, 0);

  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(WaitUntil(Seconds(60), [&] { return !Left(program); }));
  close(ready[0]);
  close(ready[1]);
}

INSTANTIATE_TEST_SUITE_P(Signals, HostsTest, testing::Values(SIGINT, SIGTERM, SIGKILL));

TEST(Hosts, OfOneProgramFollowEachOther) {
  if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  { const Hosts first(2); }
  EXPECT_FALSE(Left(getpid()));

  const Hosts second(1);

  EXPECT_EQ(RunCommand({"ip", "netns", "exec", second.Namespace(0), "true"}).exit_code, 0);
}

TEST(Hosts, HaveNoMoreOfTheProcessorThanTheirQuota) {
  if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  std::string group;
  {
    Hosts hosts(1);
    hosts.LimitCpu(0, 0.1);
    for (const char* root : {"/sys/fs/cgroup/", "/sys/fs/cgroup/cpu/"}) {
      if (std::filesystem::exists(root + hosts.Namespace(0))) group = root + hosts.Namespace(0);
    }
    const auto busy =
        hosts.Start(0, "host-0", {}, {"/bin/sh", "-c", "while :; do :; done"}, "/dev/null");

    EXPECT_TRUE(WaitUntil(Seconds(60), [&] { return Throttled(group) >= 5; })) << group;
  }
  EXPECT_FALSE(std::filesystem::exists(group)) << group << " was left behind";
}

}  // namespace
}  // namespace ringmaster::runtime_test
