// Tests which connections to the agents' port stay open, and for how long without a hello.

#include "worker/launcher/server/agent_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"
#include "tests/unit/launcher/server/fake_connection.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class Agents : public testing::Test {
 protected:
  std::shared_ptr<FakeConnection> Connect() {
    auto connection = std::make_shared<FakeConnection>();
    agents.Add(connection);
    return connection;
  }
  std::shared_ptr<FakeConnection> ConnectAndGreet() {
    auto connection = Connect();
    connection->handlers.on_message(control::AgentHello{});
    return connection;
  }

  FakeClock clock;
  std::vector<std::string> heard;
  AgentConnections agents{
      clock,
      {[this](ConnectionId id, const auto&) { heard.push_back("hello " + std::to_string(id)); },
       [this](ConnectionId id, const auto& message) {
         heard.push_back(std::string(control::TypeName(message)) + " " + std::to_string(id));
       },
       [this](ConnectionId id, bool greeted) {
         heard.push_back((greeted ? "closed " : "stranger closed ") + std::to_string(id));
       }}};
};

TEST_F(Agents, AreHandledAfterTheirHello) {
  auto first = ConnectAndGreet();
  auto second = Connect();

  first->handlers.on_message(control::Heartbeat{});
  first->handlers.on_closed("reset");
  second->handlers.on_closed("reset");

  EXPECT_THAT(heard, ElementsAre("hello 1", "Heartbeat 1", "closed 1", "stranger closed 2"));
  EXPECT_TRUE(agents.empty());
}

TEST_F(Agents, AreRefusedIfTheySendAnythingElseFirst) {
  auto connection = Connect();

  connection->handlers.on_message(control::Heartbeat{});

  EXPECT_THAT(heard, IsEmpty());
  EXPECT_THAT(connection->sent, ElementsAre("Refused"));
  EXPECT_EQ(connection->finished, "the first message is not an AgentHello");
}

TEST_F(Agents, HaveFiveSecondsToSendAHello) {
  auto silent = Connect();
  auto greeted = ConnectAndGreet();
  clock.Advance(2s);
  auto later = Connect();
  clock.Advance(3s);
  agents.CloseSilent(clock.Now());
  EXPECT_TRUE(silent->open());

  clock.Advance(1ms);
  agents.CloseSilent(clock.Now());

  EXPECT_EQ(silent->closed, "sent no hello in time");
  EXPECT_TRUE(greeted->open());
  EXPECT_TRUE(later->open());
}

TEST_F(Agents, CostTheOldestStrangerItsPlaceWhenThereAreTooMany) {
  auto greeted = ConnectAndGreet();
  auto oldest = Connect();
  auto next = Connect();
  for (std::size_t i = 2; i < AgentConnections::kMaxPending; ++i) Connect();
  EXPECT_TRUE(oldest->open());

  Connect();

  EXPECT_FALSE(oldest->open());
  EXPECT_TRUE(next->open());
  EXPECT_TRUE(greeted->open());
}

TEST_F(Agents, MaySendLongLinesOnceAdmitted) {
  auto connection = ConnectAndGreet();
  EXPECT_EQ(connection->max_line_bytes, 0U);

  agents.Admit(1);

  EXPECT_EQ(connection->max_line_bytes, control::kMaxLineBytes);
}

TEST_F(Agents, GetWhatIsSentToThemWhileTheyAreConnected) {
  auto first = ConnectAndGreet();
  auto second = ConnectAndGreet();
  second->handlers.on_closed("reset");

  agents.SendToAll({1, 2}, control::Heartbeat{});
  agents.Send(2, control::Heartbeat{});
  agents.Refuse(2, "too late");
  agents.Close(1, "silent");

  EXPECT_THAT(first->sent, ElementsAre("Heartbeat"));
  EXPECT_EQ(first->closed, "silent");
  EXPECT_THAT(second->sent, IsEmpty());
}

TEST_F(Agents, AreSentAwayWhenTheJobIsOver) {
  auto before = ConnectAndGreet();

  agents.End("the job is over");
  auto after = Connect();

  EXPECT_EQ(before->finished, "the job is over");
  EXPECT_EQ(after->closed, "the job is over");
  EXPECT_FALSE(agents.empty());
  before->handlers.on_closed("finished");
  EXPECT_TRUE(agents.empty());
}

}  // namespace
}  // namespace ringmaster::launcher
