#include "worker/trainer/world_sources/agent/agent_membership.h"

#include <cstring>
#include <future>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/memory_store.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

// The agent's end of a rank's connection. Sends and receives lines.
class FakeAgent {
 public:
  explicit FakeAgent(const std::string& path) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ::listen(listener_, 1);
  }
  ~FakeAgent() {
    Close();
    ::close(listener_);
  }

  void Accept() { connection_ = ::accept(listener_, nullptr, nullptr); }
  void Close() {
    if (connection_ >= 0) ::close(connection_);
    connection_ = -1;
  }

  void Send(const control::Message& message) const {
    const std::string line = control::Encode(message) + "\n";
    ASSERT_EQ(::send(connection_, line.data(), line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size()));
  }

  // Reads the next message, which must be a T.
  template <typename T>
  T Receive() {
    std::string line;
    char c = 0;
    while (::read(connection_, &c, 1) == 1 && c != '\n') line += c;
    const Result<control::Message> message = control::Decode(line);
    EXPECT_TRUE(message.ok() && std::holds_alternative<T>(*message)) << line;
    return message.ok() && std::holds_alternative<T>(*message) ? std::get<T>(*message) : T{};
  }

 private:
  int listener_ = -1;
  int connection_ = -1;
};

class SteppedClock final : public Clock {
 public:
  Time Now() const override { return now; }
  WallTime WallNow() const override { return {}; }
  Time now{};
};

class AgentMembershipTest : public ::testing::Test {
 protected:
  AgentMembershipTest() {
    auto connected = AgentMembership::Connect(path_, 1, clock_);
    EXPECT_TRUE(connected.ok());
    membership_ = *std::move(connected);
    agent_.Accept();
  }

  // Enters a world as rank 0 of two ranks on two nodes, and returns the world.
  World Enter() {
    agent_.Send(control::RankEpoch{.epoch = kEpoch, .rank = 0, .members = Members()});
    const Result<World> world = membership_->AwaitWorld({});
    EXPECT_TRUE(world.ok());
    agent_.Receive<control::RankHello>();
    return *world;
  }

  static std::vector<control::Member> Members() {
    control::Member first;
    first.pod_uid = "a";
    first.address = "10.0.0.1";
    first.node = "n1";
    first.slot = 1;
    control::Member second = first;
    second.pod_uid = "b";
    second.address = "10.0.0.2";
    second.node = "n2";
    second.rank = 1;
    return {first, second};
  }

  static constexpr control::Epoch kEpoch{.term = 2, .number = 7};
  static constexpr control::Epoch kNext{.term = 2, .number = 8};
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/agent";
  SteppedClock clock_;
  FakeAgent agent_{path_};
  std::unique_ptr<AgentMembership> membership_;
};

TEST_F(AgentMembershipTest, SendsAHelloAndEntersItsAssignedWorld) {
  agent_.Send(control::RankEpoch{.epoch = kEpoch, .rank = 0, .members = Members()});

  const Result<World> world = membership_->AwaitWorld({});

  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->epoch, kEpoch);
  EXPECT_EQ(world->size, 2);
  EXPECT_EQ(world->address, "10.0.0.1");
  EXPECT_EQ(world->ranks_on_host, 1);
  EXPECT_EQ(world->workers, 2);
  EXPECT_FALSE(world->one_machine);
  const auto hello = agent_.Receive<control::RankHello>();
  EXPECT_EQ(hello.slot, 1);
  EXPECT_EQ(hello.pid, ::getpid());
}

TEST_F(AgentMembershipTest, RanksOfAWorkerAreCountedInTheirOrder) {
  std::vector<control::Member> members = Members();
  for (const std::size_t worker : {1UL, 1UL, 0UL}) members.push_back(members[worker]);
  agent_.Send(control::RankEpoch{.epoch = kEpoch, .rank = 3, .members = members});

  const Result<World> world = membership_->AwaitWorld({});

  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->local_rank, 2) << "of ranks 1, 2 and 3";
  EXPECT_EQ(world->ranks_on_host, 3);
  EXPECT_EQ(world->workers, 2);
}

TEST_F(AgentMembershipTest, RelaysTheStore) {
  const World world = Enter();
  std::jthread relay([&] {
    const auto set = agent_.Receive<control::StoreSet>();
    EXPECT_EQ(set.epoch, kEpoch);
    const auto get = agent_.Receive<control::StoreGet>();
    EXPECT_EQ(get.rank, 0);
    agent_.Send(control::StoreValues{
        .epoch = kEpoch, .id = get.id + 100, .rank = 0, .values = {"not ours"}});
    agent_.Send(control::StoreValues{
        .epoch = kEpoch, .id = get.id, .rank = 0, .values = {set.value, "other"}});
  });

  ASSERT_TRUE(world.store->Set("mine", std::string("\0\n", 2)).ok());
  const auto values = world.store->Get({"mine", "theirs"}, In(std::chrono::seconds(20)));

  ASSERT_TRUE(values.ok()) << values.error().message;
  EXPECT_THAT(*values, ::testing::ElementsAre(std::string("\0\n", 2), "other"));
}

TEST_F(AgentMembershipTest, StoreEndsAtItsDeadline) {
  const World world = Enter();

  const auto values = world.store->Get({"never"}, In(std::chrono::milliseconds(10)));

  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.error().kind, ErrorKind::kTimeout);
}

TEST_F(AgentMembershipTest, ReportsProgressAtMostTwiceASecondAndOnceForEachWorldAtOnce) {
  World world = Enter();
  const auto report = [&](int64_t step, int millis) {
    clock_.now += std::chrono::milliseconds(millis);
    control::Progress progress;
    progress.step = step;
    membership_->Report(world, progress);
  };

  report(1, 0);
  report(2, 100);
  report(3, 399);
  report(4, 1);
  world.epoch = kNext;
  report(5, 1);
  report(6, 1);
  report(7, 499);

  for (const int64_t step : {1, 4, 5, 7}) {
    const auto progress = agent_.Receive<control::RankProgress>();
    EXPECT_EQ(progress.progress.step, step);
    EXPECT_EQ(progress.epoch, step < 5 ? kEpoch : kNext);
  }
}

TEST_F(AgentMembershipTest, FinishReportsDoneAndWaitsForItsOwnEpochsRelease) {
  const World world = Enter();
  Result<bool> finished = Error{};
  std::jthread rank([&] { finished = membership_->Finish(world, {}); });

  EXPECT_EQ(agent_.Receive<control::RankProgress>().epoch, kEpoch);
  EXPECT_EQ(agent_.Receive<control::RankDone>().epoch, kEpoch);
  agent_.Send(control::Release{.epoch = {.term = 2, .number = 6}});
  agent_.Send(control::Release{.epoch = kEpoch});
  rank.join();

  ASSERT_TRUE(finished.ok());
  EXPECT_TRUE(*finished);
}

TEST_F(AgentMembershipTest, FinishEndsWhenTheWorldIsOverAndReportsTheBoundary) {
  const World world = Enter();
  Result<bool> finished = Error{};
  std::jthread rank([&] {
    control::Progress progress;
    progress.step = 9;
    finished = membership_->Finish(world, progress);
  });

  agent_.Receive<control::RankProgress>();
  agent_.Receive<control::RankDone>();
  agent_.Send(control::RankSwitch{.epoch = kEpoch});
  const auto boundary = agent_.Receive<control::RankAtBoundary>();
  agent_.Send(control::RankLeave{.below = kNext});
  rank.join();

  EXPECT_EQ(boundary.epoch, kEpoch);
  EXPECT_EQ(boundary.step, 9);
  ASSERT_TRUE(finished.ok());
  EXPECT_FALSE(*finished);
}

TEST_F(AgentMembershipTest, LeaveCallsTheWatchAndWakesTheStore) {
  const World world = Enter();
  std::promise<std::string> over;
  membership_->Watch(kEpoch, [&](const std::string& reason) { over.set_value(reason); });
  std::jthread launcher([&] {
    agent_.Receive<control::StoreGet>();
    agent_.Send(control::RankLeave{.below = kEpoch});  // does not end this epoch
    agent_.Send(control::RankLeave{.below = kNext});
  });

  const auto values = world.store->Get({"never"}, In(std::chrono::seconds(60)));

  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.error().kind, ErrorKind::kCancelled);
  EXPECT_THAT(over.get_future().get(), ::testing::HasSubstr("abandoned this world"));
}

TEST_F(AgentMembershipTest, AWatchOfAWorldThatIsOverIsCalledAtOnceAndAnUnwatchedOneNever) {
  const World world = Enter();
  int calls = 0;
  membership_->Watch(kEpoch, [&](const std::string&) { ++calls; });
  membership_->Unwatch();
  agent_.Send(control::RankEpoch{.epoch = kNext, .rank = 1, .members = Members()});

  const Result<World> next = membership_->AwaitWorld(world.epoch);
  membership_->Watch(kEpoch, [&](const std::string&) { calls += 10; });

  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->epoch, kNext);
  EXPECT_EQ(next->rank, 1);
  EXPECT_EQ(calls, 10);
}

TEST_F(AgentMembershipTest, DoesNotEnterAWorldThatWasAbandonedMeanwhile) {
  const World world = Enter();
  const control::Epoch last{.term = 3, .number = 1};
  agent_.Send(control::RankEpoch{.epoch = kNext, .rank = 0, .members = Members()});
  agent_.Send(control::RankLeave{.below = last});
  agent_.Send(control::RankEpoch{.epoch = kEpoch, .rank = 0, .members = Members()});
  std::promise<void> over;
  membership_->Watch(kNext, [&](const std::string&) { over.set_value(); });
  over.get_future().get();
  agent_.Send(control::RankEpoch{.epoch = last, .rank = 0, .members = Members()});

  const Result<World> next = membership_->AwaitWorld(world.epoch);

  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->epoch, last);
}

TEST_F(AgentMembershipTest, IgnoresAWorldThatDoesNotHoldTogether) {
  Enter();

  agent_.Send(control::RankEpoch{.epoch = kNext, .rank = 2, .members = Members()});
  agent_.Send(control::RankEpoch{.epoch = kNext, .rank = -1, .members = Members()});
  agent_.Send(control::RankEpoch{.epoch = {.term = 2, .number = 9}, .members = Members()});

  const Result<World> next = membership_->AwaitWorld(kEpoch);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->epoch.number, 9);
}

TEST_F(AgentMembershipTest, ReportsABrokenWorldAndTheBoundary) {
  const World world = Enter();
  EXPECT_FALSE(membership_->SwitchWanted(kEpoch, 1));

  membership_->Broken(world, 1, "rank 1 went away");
  membership_->AtBoundary(world, 12);
  std::promise<void> over;
  membership_->Watch(kEpoch, [&](const std::string&) { over.set_value(); });
  agent_.Send(control::RankSwitch{.epoch = kEpoch});
  agent_.Send(control::RankLeave{.below = kNext});
  over.get_future().get();

  const auto broken = agent_.Receive<control::RankBroken>();
  EXPECT_EQ(broken.epoch, kEpoch);
  EXPECT_EQ(broken.peer, 1);
  EXPECT_EQ(broken.reason, "rank 1 went away");
  EXPECT_EQ(agent_.Receive<control::RankAtBoundary>().step, 12);
  EXPECT_TRUE(membership_->SwitchWanted(kEpoch, 1));
  EXPECT_FALSE(membership_->SwitchWanted(kNext, 1));
}

TEST_F(AgentMembershipTest, ACheckpointOfThisWorldIsWantedOnce) {
  Enter();
  EXPECT_FALSE(membership_->CheckpointWanted(kEpoch));
  std::promise<void> over;
  membership_->Watch(kEpoch, [&](const std::string&) { over.set_value(); });
  agent_.Send(control::TakeCheckpoint{.epoch = kEpoch});
  agent_.Send(control::RankLeave{.below = kNext});
  over.get_future().get();

  EXPECT_TRUE(membership_->CheckpointWanted(kEpoch));
  EXPECT_FALSE(membership_->CheckpointWanted(kEpoch));
}

TEST_F(AgentMembershipTest, AsksForACheckpointsGrantInEachWorldUntilItComes) {
  Enter();
  Result<void> granted = Error{};
  std::jthread writer([&] {
    granted = membership_->AwaitGrant({.step = 500, .shard = 0, .bytes = 64, .checksum = "ff"}, {});
  });

  const auto first = agent_.Receive<control::CheckpointWritten>();
  agent_.Send(control::CheckpointGrant{.epoch = kEpoch, .rank = 0, .step = 400, .shard = 0});
  agent_.Send(control::RankLeave{.below = kNext});
  agent_.Send(control::RankEpoch{.epoch = kNext, .rank = 1, .members = Members()});
  const auto second = agent_.Receive<control::CheckpointWritten>();
  agent_.Send(control::CheckpointGrant{.epoch = kNext, .rank = 1, .step = 500, .shard = 0});
  writer.join();

  EXPECT_TRUE(granted.ok());
  EXPECT_EQ(first.epoch, kEpoch);
  EXPECT_EQ(first.bytes, 64);
  EXPECT_EQ(second.epoch, kNext);
  EXPECT_EQ(second.rank, 1);
  agent_.Send(
      control::RankEpoch{.epoch = {kNext.term, kNext.number + 1}, .rank = 0, .members = Members()});
  membership_->CheckpointComplete(500, 4096);
  const auto done = agent_.Receive<control::CheckpointDone>();
  EXPECT_EQ(done.epoch, kNext) << "of the grant, whatever the world is by now";
  EXPECT_EQ(done.rank, 1);
  EXPECT_EQ(done.bytes, 4096);
  membership_->Unprotected("snapshot", "no memory");
  EXPECT_EQ(agent_.Receive<control::RankProtection>().fault, "no memory");
}

TEST_F(AgentMembershipTest, AGrantThatNeverComesEndsWhenTheWriterStops) {
  Enter();
  Result<void> granted;
  std::jthread writer(
      [&](const std::stop_token& stop) { granted = membership_->AwaitGrant({.step = 500}, stop); });

  agent_.Receive<control::CheckpointWritten>();
  writer.request_stop();
  writer.join();

  ASSERT_FALSE(granted.ok());
  EXPECT_EQ(granted.error().kind, ErrorKind::kCancelled);
}

TEST_F(AgentMembershipTest, ALostAgentEndsEveryWait) {
  const World world = Enter();
  std::promise<void> over;
  membership_->Watch(kEpoch, [&](const std::string&) { over.set_value(); });
  agent_.Close();

  over.get_future().get();
  EXPECT_FALSE(world.store->Get({"never"}, In(std::chrono::seconds(60))).ok());
  EXPECT_FALSE(membership_->Finish(world, {}).ok());
  EXPECT_FALSE(membership_->AwaitWorld(kEpoch).ok());
  EXPECT_FALSE(membership_->AwaitGrant({.step = 500}, {}).ok());
}

TEST(AgentMembership, ReportsAMissingAgent) {
  const SteppedClock clock;

  const auto connected = AgentMembership::Connect("/nonexistent/agent", 0, clock);

  ASSERT_FALSE(connected.ok());
  EXPECT_THAT(connected.error().message, ::testing::HasSubstr("/nonexistent/agent"));
}

}  // namespace
}  // namespace ringmaster::trainer
