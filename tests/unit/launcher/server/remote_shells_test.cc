// Tests the requests of mpirun's remote shells and their results, with fake connections.

#include "worker/launcher/server/remote_shells.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/server/fake_connection.h"

namespace ringmaster::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Shells : public testing::Test {
 protected:
  void SetUp() override { shells.Begin({{"10.0.0.2", 7}, {"240.0.0.1", 8}}); }

  std::shared_ptr<FakeConnection> Ask(const std::string& host,
                                      const std::string& command = "true") {
    auto connection = std::make_shared<FakeConnection>();
    shells.Add(connection);
    connection->handlers.on_message(control::RshHello{.host = host, .command = command});
    return connection;
  }
  // Returns the last command that an agent was asked to run.
  control::RunCommand Run() const {
    for (auto said = told.rbegin(); said != told.rend(); ++said) {
      if (const auto* run = std::get_if<control::RunCommand>(&said->second)) return *run;
    }
    return {};
  }
  std::vector<std::string> Sent() const {
    std::vector<std::string> words;
    for (const auto& [agent, message] : told) {
      words.push_back(std::to_string(agent) + " " + std::string(TypeName(message)));
    }
    return words;
  }

  std::vector<std::pair<ConnectionId, control::Message>> told;
  RemoteShells shells{
      [this](ConnectionId agent, const auto& message) { told.emplace_back(agent, message); }};
};

TEST_F(Shells, RunTheirCommandOnTheAgentOfTheirHost) {
  const auto shell = Ask("240.0.0.1", "orted -mca ess env");
  const int64_t id = Run().id;
  EXPECT_EQ(Run().command, "orted -mca ess env");

  EXPECT_TRUE(shells.OnMessage(8, control::CommandOutput{id, true, "a"}));
  EXPECT_TRUE(shells.OnMessage(8, control::CommandExited{id, 3, 0, ""}));
  shell->handlers.on_closed("the peer closed the connection");

  EXPECT_THAT(Sent(), ElementsAre("8 RunCommand"));
  EXPECT_THAT(shell->sent, ElementsAre("CommandOutput", "CommandExited"));
  EXPECT_FALSE(shell->finished.empty());
}

TEST_F(Shells, TakeOutputOnlyFromTheAgentThatRunsTheirCommand) {
  const auto shell = Ask("10.0.0.2");
  const int64_t id = Run().id;

  EXPECT_TRUE(shells.OnMessage(8, control::CommandOutput{id, false, "a"}));
  EXPECT_TRUE(shells.OnMessage(8, control::CommandExited{id, 0, 0, ""}));
  EXPECT_TRUE(shells.OnMessage(7, control::CommandExited{id + 1, 0, 0, ""}));
  EXPECT_FALSE(shells.OnMessage(7, control::Heartbeat{}));

  EXPECT_THAT(shell->sent, IsEmpty());
}

TEST_F(Shells, EndTheirCommandWithThem) {
  const auto shell = Ask("10.0.0.2");

  shell->handlers.on_closed("the peer closed the connection");

  EXPECT_THAT(Sent(), ElementsAre("7 RunCommand", "7 EndCommand"));
  EXPECT_TRUE(shells.OnMessage(7, control::CommandExited{Run().id, -1, 15, ""}));
}

TEST_F(Shells, AreRefusedHostsThatMpirunMayNotReach) {
  EXPECT_EQ(Ask("10.0.0.9")->finished, "this run of mpirun has no worker with that name");
  EXPECT_EQ(Ask("10.0.0.2", std::string(control::kMaxCommandBytes + 1, 'x'))->finished,
            "the command is too long for a shell");
  EXPECT_THAT(Sent(), IsEmpty());

  const auto first = Ask("10.0.0.2");
  EXPECT_EQ(Ask("10.0.0.2")->finished, "another command of mpirun is already running there");
  shells.OnMessage(7, control::CommandExited{Run().id, 0, 0, ""});
  EXPECT_EQ(Ask("10.0.0.2")->finished, "");
}

TEST_F(Shells, AreRefusedWhatIsNoRequest) {
  const auto shell = std::make_shared<FakeConnection>();
  shells.Add(shell);

  shell->handlers.on_message(control::Heartbeat{});

  EXPECT_EQ(shell->closed, "its first message is not an RshHello");
}

TEST_F(Shells, LearnThatTheirWorkerIsLost) {
  const auto shell = Ask("10.0.0.2");
  const auto other = Ask("240.0.0.1");

  shells.OnAgentDisconnected(7);

  EXPECT_EQ(shell->finished,
            "lost the connection to the agent of that worker while the command was running");
  EXPECT_EQ(other->finished, "");
  EXPECT_EQ(Ask("10.0.0.2")->finished, "the connection of that worker's agent has broken");
}

TEST_F(Shells, EndWithTheirMpirun) {
  const auto shell = Ask("10.0.0.2");

  shells.End();

  EXPECT_THAT(Sent(), ElementsAre("7 RunCommand", "7 EndCommand"));
  EXPECT_EQ(shell->finished, "its mpirun has exited");
  shell->handlers.on_closed("the peer closed the connection");
  EXPECT_EQ(told.size(), 2U);
  EXPECT_EQ(Ask("10.0.0.2")->finished, "this run of mpirun has no worker with that name");
}

}  // namespace
}  // namespace ringmaster::launcher
