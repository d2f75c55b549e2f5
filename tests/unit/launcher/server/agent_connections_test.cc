// Who may stay connected to the agents' port, and for how long without a hello.

#include "worker/launcher/server/agent_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

// Keeps what is done to it; closes when the test says so.
class FakeConnection final : public control::LineConnection {
 public:
  void Start(Handlers chosen) override { handlers = std::move(chosen); }
  void Send(const control::Message& message) override { sent.emplace_back(TypeName(message)); }
  void SendShared(const control::SharedLine& line) override { sent.emplace_back(line.type); }
  void Close(const std::string& reason) override { closed = reason; }
  void Finish(const std::string& reason) override { finished = reason; }
  void SetMaxLineBytes(std::size_t bytes) override { max_line_bytes = bytes; }
  bool open() const override { return closed.empty(); }
  std::size_t queued_bytes() const override { return 0; }
  const std::string& peer() const override { return name; }
  std::optional<control::UnixPeer> unix_peer() const override { return {}; }

  Handlers handlers;
  std::vector<std::string> sent;
  std::string closed;
  std::string finished;
  std::size_t max_line_bytes = 0;
  std::string name = "10.0.0.1:1234";
};

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

TEST_F(Agents, AreHeardAfterTheirHello) {
  auto first = ConnectAndGreet();
  auto second = Connect();

  first->handlers.on_message(control::Heartbeat{});
  first->handlers.on_closed("reset");
  second->handlers.on_closed("reset");

  EXPECT_THAT(heard, ElementsAre("hello 1", "Heartbeat 1", "closed 1", "stranger closed 2"));
  EXPECT_TRUE(agents.empty());
}

TEST_F(Agents, AreRefusedWhenTheySayAnythingElseFirst) {
  auto connection = Connect();

  connection->handlers.on_message(control::Heartbeat{});

  EXPECT_THAT(heard, IsEmpty());
  EXPECT_THAT(connection->sent, ElementsAre("Refused"));
  EXPECT_EQ(connection->finished, "the first message is not an AgentHello");
}

TEST_F(Agents, HaveFiveSecondsToSayHello) {
  auto silent = Connect();
  auto greeted = ConnectAndGreet();
  clock.Advance(2s);
  auto later = Connect();
  clock.Advance(3s);
  agents.CloseSilent(clock.Now());
  EXPECT_TRUE(silent->open());

  clock.Advance(1ms);
  agents.CloseSilent(clock.Now());

  EXPECT_EQ(silent->closed, "said nothing");
  EXPECT_TRUE(greeted->open());
  EXPECT_TRUE(later->open());
}

TEST_F(Agents, CostTheOldestStrangerItsPlaceWhenThereAreTooMany) {
  auto greeted = ConnectAndGreet();
  auto oldest = Connect();
  auto next = Connect();
  for (std::size_t i = 2; i < AgentConnections::kMaxStrangers; ++i) Connect();
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
