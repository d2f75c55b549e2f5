#include "worker/launcher/child_process.h"

#include <csignal>
#include <optional>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "worker/launcher/last_lines.h"

namespace ringmaster::launcher {
namespace {

struct Outcome {
  std::string output;
  std::string errors;
  std::optional<ChildExit> exit;
};

// Runs a shell script to its end; `stop_on` in its output has it stopped.
Outcome RunScript(const std::string& script, const std::string& stop_on = "") {
  boost::asio::io_context io;
  ChildProcesses children(io);
  Outcome run;
  std::unique_ptr<ChildProcess> child;
  ChildSpec spec;
  spec.file = "/bin/sh";
  spec.arguments = {"sh", "-c", script};
  spec.environment = {{"PATH", "/usr/bin:/bin"}, {"ONLY", "this"}};
  spec.on_output = [&](bool is_stderr, std::string_view data) {
    (is_stderr ? run.errors : run.output) += data;
    if (!stop_on.empty() && run.output.find(stop_on) != std::string::npos)
      child->Stop(std::chrono::milliseconds(100));
  };
  spec.on_exit = [&](ChildExit exit) {
    run.exit = exit;
    io.stop();
  };
  auto started = children.Start(std::move(spec));
  EXPECT_TRUE(started.ok());
  child = std::move(*started);
  io.run();
  return run;
}

TEST(ChildProcess, ReportsOutputOfBothStreamsAndTheExitCode) {
  const Outcome run = RunScript("echo out; echo err >&2; exit 3");

  EXPECT_EQ(run.output, "out\n");
  EXPECT_EQ(run.errors, "err\n");
  EXPECT_EQ(run.exit->exit_code, 3);
}

TEST(ChildProcess, ReportsSignals) { EXPECT_EQ(RunScript("kill -9 $$").exit->signal, SIGKILL); }

TEST(ChildProcess, GivesOnlyTheEnvironmentItWasTold) {
  EXPECT_EQ(RunScript("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= | sort").output,
            "ONLY=this\nPATH=/usr/bin:/bin\n");
}

TEST(ChildProcess, LeavesNoDescriptorOfOursOpen) {
  EXPECT_EQ(RunScript("ls /proc/self/fd | wc -l").output, "4\n");  // 0, 1, 2 and the listing's own
}

TEST(ChildProcess, StopsTheWholeGroupThatIgnoresTheFirstSignal) {
  const Outcome run = RunScript(
      "trap '' TERM; (trap '' TERM; while :; do sleep 60; done) & echo ready; wait", "ready");

  EXPECT_EQ(run.exit->signal, SIGKILL);
}

TEST(ChildProcess, DoesNotWaitForDaemonsThatKeepTheOutputOpen) {
  EXPECT_EQ(RunScript("setsid sh -c 'sleep 30 & ' ; exit 0").exit->exit_code, 0);
}

TEST(ChildProcess, SaysWhyAProgramCannotStart) {
  boost::asio::io_context io;
  ChildProcesses children(io);
  ChildSpec spec;
  spec.file = "/nonexistent/mpirun";
  spec.arguments = {"mpirun"};

  const auto started = children.Start(std::move(spec));

  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().kind, ErrorKind::kNotFound);
}

TEST(FindProgram, LooksThroughThePathInOrder) {
  EXPECT_EQ(FindProgram("sh", "/nonexistent:/bin:/usr/bin"), "/bin/sh");
  EXPECT_EQ(FindProgram("no-such-program", "/bin:/usr/bin"), "");
}

TEST(LastLines, KeepsTheNewestOfBothStreamsShort) {
  LastLines lines;
  for (int i = 0; i < 20; ++i) lines.Add(i % 2 == 0, "line " + std::to_string(i) + "\n");
  lines.Add(false, "half");
  lines.Add(true, std::string(1000, 'x') + "\n\n");

  const auto kept = lines.Get();

  ASSERT_EQ(kept.size(), LastLines::kLines);
  EXPECT_EQ(kept.back(), "half");
  EXPECT_EQ(kept[8], std::string(300, 'x'));
  EXPECT_EQ(kept[0], "line 12");
}

}  // namespace
}  // namespace ringmaster::launcher
