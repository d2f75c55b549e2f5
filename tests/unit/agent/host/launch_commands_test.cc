// Tests how the agent runs commands of the launcher's mpirun, with real shells.

#include "worker/agent/host/launch_commands.h"

#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "tests/fakes/patience.h"

namespace ringmaster::agent {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Returns the state of a process in /proc; 'Z' or '?' if the process has ended.
char StateOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string id;
  std::string name;
  char state = '?';
  file >> id >> name >> state;
  return state;
}

class LaunchCommandsTest : public testing::Test {
 protected:
  LaunchCommandsTest() {
    config_.runtime_dir = "/r";
    config_.container = {{"PATH", "/usr/bin:/bin"}, {"HOME", "/home/u"}, {"A", "b c"}};
  }
  void Await() {
    while (!exited_) {
      if (io_.run_one_for(std::chrono::seconds(20) * Patience()) == 0) return;
    }
  }

  Config config_;
  boost::asio::io_context io_;
  ChildReaper reaper_{io_};
  std::string out_;
  std::string err_;
  std::optional<control::CommandExited> exited_;
  LaunchCommands commands_{
      reaper_,
      config_,
      {.on_output =
           [this](const control::CommandOutput& output) {
             EXPECT_EQ(output.id, 7);
             (output.is_stderr ? err_ : out_) += output.data;
           },
       .on_exited = [this](const control::CommandExited& exited) { exited_ = exited; }}};
};

TEST_F(LaunchCommandsTest, AreLinesOfAShellWithTheContainersEnvironment) {
  commands_.Run(
      {7, "X=\"a b\" ; echo $X, $A, $HOME, $RINGMASTER_AGENT_SOCKET; echo no >&2; exit 3"});
  Await();

  EXPECT_EQ(out_, "a b, b c, /home/u, /r/agent.sock\n");
  EXPECT_EQ(err_, "no\n");
  ASSERT_TRUE(exited_);
  EXPECT_EQ(exited_->id, 7);
  EXPECT_EQ(exited_->exit_code, 3);
  EXPECT_EQ(exited_->fault, "");
}

TEST_F(LaunchCommandsTest, KnowNothingThatOnlyTheAgentNeeds) {
  config_.container[control::kEnvLaunchSpec] = "{}";
  config_.container[control::kEnvCredentialsDir] = "/secret";

  const std::vector<std::string> environment = CommandEnvironment(config_);

  EXPECT_THAT(environment, Contains("A=b c"));
  EXPECT_THAT(environment, Not(Contains(StartsWith(control::kEnvLaunchSpec))));
  EXPECT_THAT(environment, Not(Contains(StartsWith(control::kEnvCredentialsDir))));
}

TEST_F(LaunchCommandsTest, ThatCannotBeStartedReportWhy) {
  config_.container["PATH"] = "/nowhere";

  commands_.Run({7, "true"});

  ASSERT_TRUE(exited_);
  EXPECT_THAT(exited_->fault, HasSubstr("sh"));
}

TEST_F(LaunchCommandsTest, EndOnRequest) {
  commands_.Run({7, "sleep 600; true"});
  commands_.End(8);
  commands_.End(7);
  Await();

  ASSERT_TRUE(exited_);
  EXPECT_EQ(exited_->signal, SIGTERM);
}

TEST_F(LaunchCommandsTest, OfALostLauncherEndWithoutAReport) {
  commands_.Run({7, "echo $$; exec sleep 600"});
  while (out_.empty()) io_.run_one();
  const std::string pid = out_.substr(0, out_.find('\n'));

  commands_.EndAll();
  while (StateOf(pid) != '?') io_.run_one();

  EXPECT_FALSE(exited_);
}

// mpirun's daemon forks, its parent ends, and only then the daemon detaches itself.
TEST_F(LaunchCommandsTest, LeaveTheirDaemonsAlone) {
  commands_.Run({7, "sleep 600 >/dev/null 2>&1 & echo $!"});
  Await();

  const pid_t daemon = std::stoi(out_);
  ASSERT_TRUE(exited_);
  EXPECT_EQ(exited_->exit_code, 0);
  int status = 0;
  kill(daemon, SIGTERM);
  ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
  EXPECT_EQ(WTERMSIG(status), SIGTERM) << "nobody else has ended it";
}

}  // namespace
}  // namespace ringmaster::agent
