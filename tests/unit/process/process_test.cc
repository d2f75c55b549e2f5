#include <csignal>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/process/captured_process.h"

namespace ringmaster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Runs a shell command to its end.
struct Shell {
  explicit Shell(const std::string& command, bool stop_at_output = false,
                 std::optional<mode_t> mask = {}) {
    std::shared_ptr<CapturedProcess> process;
    ProcessSpec spec;
    spec.argv = {"sh", "-c", command};
    spec.environment = {"PATH=/usr/bin:/bin", "WISH=granted"};
    spec.mask = mask;
    auto started = CapturedProcess::Start(reaper, spec,
                                          {.on_output =
                                               [&](bool is_stderr, std::string_view data) {
                                                 (is_stderr ? errors : output) += data;
                                                 if (stop_at_output)
                                                   process->Stop(std::chrono::milliseconds(50));
                                               },
                                           .on_end =
                                               [&](ProcessEnd how, const LastLines& lines) {
                                                 end = how;
                                                 last_lines = lines.Lines();
                                                 ++ends;
                                                 io.stop();
                                               }});
    EXPECT_TRUE(started.ok());
    process = *started;
    io.run_for(std::chrono::seconds(60));
  }

  boost::asio::io_context io;
  ChildReaper reaper{io};
  std::string output;
  std::string errors;
  ProcessEnd end;
  std::vector<std::string> last_lines;
  int ends = 0;
};

TEST(CapturedProcess, ReadsBothStreamsToTheEnd) {
  const Shell shell("echo out $WISH; echo err >&2; exit 3");

  EXPECT_EQ(shell.output, "out granted\n");
  EXPECT_EQ(shell.errors, "err\n");
  EXPECT_EQ(shell.end.exit_code, 3);
  EXPECT_EQ(shell.end.signal, 0);
  EXPECT_EQ(shell.ends, 1);
}

// Open MPI 5 ends some of its messages with a NUL byte (prrte issue 1905).
TEST(CapturedProcess, LeavesOutNulBytes) {
  const Shell shell("printf 'one\\0 two\\0\\n\\0'; printf '\\0' >&2");

  EXPECT_EQ(shell.output, "one two\n");
  EXPECT_EQ(shell.errors, "");
  EXPECT_THAT(shell.last_lines, ElementsAre("one two"));
}

TEST(CapturedProcess, GetsOnlyTheEnvironmentItWasGiven) {
  EXPECT_EQ(Shell("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= | sort").output,
            "PATH=/usr/bin:/bin\nWISH=granted\n");
}

TEST(CapturedProcess, HasTheGivenUmask) { EXPECT_EQ(Shell("umask", false, 027).output, "0027\n"); }

TEST(CapturedProcess, ReportsTheSignal) {
  const Shell shell("kill -USR1 $$");

  EXPECT_EQ(shell.end.signal, SIGUSR1);
}

TEST(CapturedProcess, KillsAGroupThatIgnoresSigterm) {
  const Shell shell("trap '' TERM; (while :; do sleep 60; done) & echo ready; wait",
                    /*stop_at_output=*/true);

  EXPECT_EQ(shell.end.signal, SIGKILL);
}

TEST(CapturedProcess, IsNotHeldUpByADaemonThatKeepsItsOutputOpen) {
  const Shell shell("setsid sh -c 'sleep 1000 &'; exit 0");

  EXPECT_EQ(shell.end.exit_code, 0);
  ChildReaper::KillAll(std::chrono::seconds(10));
}

TEST(CapturedProcess, EndsWithItsDescendants) {
  const Shell shell("sleep 1000 & echo $!; exit 0");

  EXPECT_EQ(shell.end.exit_code, 0);
  const pid_t descendant = std::atoi(shell.output.c_str());
  ASSERT_GT(descendant, 0);
  // The descendant is killed with its group and reaped here, so it is gone when KillAll returns.
  ChildReaper::KillAll(std::chrono::seconds(10));
  EXPECT_EQ(kill(descendant, 0), -1);
}

TEST(CapturedProcess, InheritsNoFileDescriptors) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);

  const Shell shell("ls /proc/self/fd | tr '\\n' ' '");

  EXPECT_EQ(shell.output.find(" " + std::to_string(pipe_ends[1]) + " "), std::string::npos);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(StartProcess, TheProgramWaitsUntilOnForkReturns) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ProcessSpec spec;
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.argv = {"sh", "-c", "echo >/proc/self/fd/" + std::to_string(ends[1])};
  spec.keep_descriptors = true;
  pollfd printed{.fd = ends[0], .events = POLLIN, .revents = 0};
  pid_t group = -1;
  spec.on_fork = [&](pid_t pid) {
    group = pid;
    EXPECT_EQ(poll(&printed, 1, /*timeout=*/200), 0);
  };

  const auto started = StartProcess(spec);

  ASSERT_TRUE(started.ok());
  EXPECT_EQ(started->pid, group);
  EXPECT_EQ(poll(&printed, 1, /*timeout=*/60'000), 1);
  EXPECT_EQ(waitpid(group, nullptr, 0), group);
  close(ends[0]);
  close(ends[1]);
}

TEST(StartProcess, SaysWhyAProgramCannotRun) {
  ProcessSpec spec;
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.argv = {"no-such-program-anywhere"};
  const auto missing = StartProcess(spec);
  spec.argv = {"/etc/passwd"};
  const auto forbidden = StartProcess(spec);

  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("no-such-program-anywhere"));
  ASSERT_FALSE(forbidden.ok());
  EXPECT_EQ(forbidden.error().kind, ErrorKind::kForbidden);
  EXPECT_THAT(forbidden.error().message, HasSubstr("/etc/passwd"));
}

TEST(StartProcess, IsUnavailableWhileFileDescriptorsAreExhausted) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ProcessSpec spec;
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.argv = {"true"};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto started = StartProcess(spec);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);

  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(started.error().message, HasSubstr("true"));
}

TEST(FindProgram, LooksInPathInOrder) {
  EXPECT_EQ(FindProgram("sh", "/nowhere:/bin"), "/bin/sh");
  EXPECT_EQ(FindProgram("./sh", "/bin"), "./sh");
  EXPECT_EQ(FindProgram("no-such-program-anywhere", "/bin"), "");
}

}  // namespace
}  // namespace ringmaster
