// Tests Coordinator and the codecs with the maximum number of ranks: the world forms, loses a rank,
// admits it again, and is taken over by a new launcher. CPU time must grow linearly with the ranks.

#include <ctime>

#include <gtest/gtest.h>

#include "common/base/log.h"
#include "common/control/world_difference.h"
#include "worker/launcher/coordinator/coordinator.h"
#include "worker/launcher/server/status_size.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;

constexpr int kSlots = 8;
constexpr int kWorkers = control::kMaxRanks / kSlots;
// Limit of CPU time, even with a sanitizer. Quadratic algorithms would take minutes.
constexpr double kSeconds = 60;

class LargestWorld : public testing::Test {
 protected:
  static void SetUpTestSuite() { InitLog("test", "off", LogFormat::kText); }

  LargestWorld() { Begin(1); }
  ~LargestWorld() override {
    EXPECT_LT(static_cast<double>(std::clock() - began_) / CLOCKS_PER_SEC, kSeconds);
  }

  void Begin(int64_t term) {
    CoordinatorOptions options;
    options.term = term;
    options.job_uid = "job";
    options.agent_token = "token";
    options.slots = kSlots;
    membership_.emplace(options);
    Take(membership_->OnMpiVersion(now_, "4.1.4"));
    control::Order order;
    order.stamp = {1, term};
    order.replicas = order.min_replicas = kWorkers;
    for (int i = 0; i < kWorkers; ++i) {
      order.workers.push_back(
          {Uid(i), "digits-worker-" + std::to_string(i), "node-" + std::to_string(i), i});
    }
    const std::string text = control::EncodeOrder(order);
    EXPECT_LT(text.size(), control::kMaxOrderBytes / 8);
    Take(*membership_->OnOrder(now_, *control::DecodeOrder(text)));
  }

  static std::string Uid(int worker) {
    return "5d2f8a10-0000-4000-8000-0000000" + std::to_string(10'000 + worker);
  }
  static std::string Start(int worker, int slot) {
    return "0123456789ab" + std::to_string(1000 + worker) + "-" + std::to_string(1 + slot / 7);
  }

  void Hello(int worker, control::Epoch highest = {}) {
    control::AgentHello hello;
    hello.token = "token";
    hello.job_uid = "job";
    hello.pod_uid = Uid(worker);
    hello.pod = "digits-worker-" + std::to_string(worker);
    hello.node = "node-" + std::to_string(worker);
    hello.slots = kSlots;
    hello.nonce = "n";
    hello.highest_epoch = highest;
    Take(membership_->OnHello(now_, worker, hello));
    Say(worker, control::AgentReady{
                    "10.1." + std::to_string(worker / 250) + "." + std::to_string(1 + worker % 250),
                    2222,
                    {},
                    {{"openmpi", "4.1.4"}}});
    for (int slot = 0; slot < kSlots; ++slot) {
      Say(worker, control::RankReady{slot, Start(worker, slot)});
    }
  }

  void Say(int worker, const control::Message& message) {
    Take(membership_->OnMessage(now_, worker, message));
  }
  // Delivers the message of each worker separately, as a slow network would.
  void SayAll(const control::Message& message) {
    for (int worker = 0; worker < kWorkers; ++worker) {
      Say(worker, message);
      Settle();
    }
  }
  void Settle() { Take(membership_->Settle(now_)); }

  void Take(Actions actions) {
    for (Action& action : actions) {
      if (auto* all = std::get_if<SendToAll>(&action)) to_all_ = std::move(*all);
      if (auto* one = std::get_if<SendTo>(&action)) to_one_ = std::move(*one);
      if (auto* start = std::get_if<StartMpirun>(&action)) start_ = std::move(*start);
    }
  }

  void Form() {
    for (int worker = 0; worker < kWorkers; ++worker) Hello(worker);
    Settle();
    ASSERT_EQ(start_.world_size, control::kMaxRanks);
    for (int worker = 0; worker < kWorkers; ++worker) {
      for (int slot = 0; slot < kSlots; ++slot) {
        Say(worker,
            control::SlotAttached{start_.cohort, slot, worker * kSlots + slot, control::kMaxRanks});
      }
    }
    Settle();
    ASSERT_EQ(membership_->phase(), control::LauncherPhase::kRunning);
  }

  void LoseARank(int worker, int slot) {
    control::RankExited exited;
    exited.epoch = membership_->epoch();
    exited.exit.slot = slot;
    exited.exit.start = Start(worker, slot);
    exited.exit.signal = 9;
    Say(worker, exited);
    Settle();
    const auto* prepare = std::get_if<control::PrepareEpoch>(&to_all_.message);
    ASSERT_NE(prepare, nullptr);
    ASSERT_EQ(to_all_.connections.size(), static_cast<std::size_t>(kWorkers));
    SayAll(control::EpochAccepted{prepare->epoch});
  }

  static std::vector<std::string> Names(const std::vector<control::Member>& members) {
    std::vector<std::string> names;
    for (const control::Member& member : members) {
      names.push_back(member.pod_uid + member.pod + member.node + member.address +
                      std::to_string(member.slot) + member.start + std::to_string(member.rank));
    }
    return names;
  }

  const std::clock_t began_ = std::clock();
  Clock::Time now_{1h};
  std::optional<Coordinator> membership_;
  SendToAll to_all_;
  SendTo to_one_;
  StartMpirun start_;
};

TEST_F(LargestWorld, IsSentOnceAndThenAsDifferences) {
  Form();

  const std::string told = control::Encode(to_all_.message);
  EXPECT_EQ(to_all_.connections.size(), static_cast<std::size_t>(kWorkers));
  EXPECT_LT(told.size(), 400U * kWorkers);
  std::vector<control::Member> known =
      std::get<control::StartEpoch>(*control::Decode(told)).members;
  EXPECT_EQ(Names(known), Names(membership_->members()));

  ASSERT_NO_FATAL_FAILURE(LoseARank(777, 3));
  const std::string change = control::Encode(to_all_.message);
  EXPECT_EQ(to_all_.connections.size(), static_cast<std::size_t>(kWorkers));
  EXPECT_LT(change.size(), 300U);
  known = *control::MembersAfter(known, std::get<control::ChangeEpoch>(*control::Decode(change)));
  EXPECT_EQ(Names(known), Names(membership_->members()));
  EXPECT_EQ(known.size(), control::kMaxRanks - 1U);

  // The rank's new process joins after the next step of the other ranks.
  Say(777, control::RankReady{3, "again-1"});
  Settle();
  ASSERT_TRUE(std::holds_alternative<control::SwitchEpoch>(to_one_.message));
  for (const control::Member& member : known) {
    Say(std::stoi(member.pod_uid.substr(31)) - 10'000,
        control::RankAtBoundary{membership_->epoch(), member.rank, 5});
    Settle();
  }
  SayAll(control::EpochAccepted{std::get<control::PrepareEpoch>(to_all_.message).epoch});
  const auto* grown = std::get_if<control::ChangeEpoch>(&to_all_.message);
  ASSERT_NE(grown, nullptr);
  EXPECT_EQ(Names(*control::MembersAfter(known, *grown)), Names(membership_->members()));
  EXPECT_EQ(membership_->members().size(), static_cast<std::size_t>(control::kMaxRanks));
}

TEST_F(LargestWorld, IsWatchedAndReportsItsStatus) {
  Form();
  for (int64_t step = 1; step <= 2; ++step) {
    for (int worker = 0; worker < kWorkers; ++worker) {
      control::RankPositions positions{membership_->epoch(), {}};
      for (int slot = 0; slot < kSlots; ++slot) {
        positions.ranks.push_back({.rank = worker * kSlots + slot,
                                   .slot = slot,
                                   .entered = true,
                                   .step = step,
                                   .phase = control::RankPhase::kReduce,
                                   .step_micros = 50'000,
                                   .own_micros = 30'000});
      }
      Say(worker, positions);
      Say(worker, control::Heartbeat{});
    }
    now_ += 100ms;
    Take(membership_->OnTick(now_));
  }
  SayAll(control::RankProgress{membership_->epoch(), {2, 10, 1, 1, -1}});

  // Agents send heartbeats less often, and the launcher sends to a fifth of the agents at a time.
  EXPECT_EQ(std::get<control::Heartbeat>(to_all_.message).every_millis, 500);
  EXPECT_NEAR(static_cast<double>(to_all_.connections.size()), kWorkers / 5.0, 1);
  const std::string status = EncodeWithin(membership_->Status(now_));
  EXPECT_EQ(control::DecodeLauncherStatus(status)->workers.size(),
            static_cast<std::size_t>(kWorkers));
  EXPECT_EQ(membership_->Times(now_).ranks.size(), static_cast<std::size_t>(control::kMaxRanks));
}

TEST_F(LargestWorld, IsTakenOverFromOneAgentsReport) {
  Form();
  const control::Epoch epoch = membership_->epoch();
  const std::vector<control::Member> members = membership_->members();
  Begin(2);
  for (int worker = 0; worker < kWorkers; ++worker) {
    Hello(worker, epoch);
    control::WorldReport report{epoch, {}, {}};
    for (int slot = 0; slot < kSlots; ++slot) report.running.push_back(Start(worker, slot));
    Say(worker, report);
    Say(worker, control::Heartbeat{});
  }
  Settle();

  ASSERT_TRUE(std::holds_alternative<control::TellWorld>(to_one_.message));
  EXPECT_EQ(membership_->phase(), control::LauncherPhase::kWaitingForAgents);
  const auto asked = static_cast<int>(to_one_.connection);
  control::WorldReport report{epoch, members, {}};
  for (int slot = 0; slot < kSlots; ++slot) report.running.push_back(Start(asked, slot));
  Say(asked, report);
  Settle();

  EXPECT_EQ(membership_->phase(), control::LauncherPhase::kRunning);
  EXPECT_EQ(membership_->epoch(), epoch);
  EXPECT_EQ(Names(membership_->members()), Names(members));
}

// Workers with one slot each, whose names have the maximum length in Kubernetes.
TEST(LargestMessages, FitTheirLimits) {
  control::StartEpoch start{{1, 1}, 1, {}};
  control::Order order;
  control::LauncherStatus status;
  for (int i = 0; i < control::kMaxRanks; ++i) {
    const std::string uid = "5d2f8a10-0000-4000-8000-0000000" + std::to_string(10'000 + i);
    const std::string pod = std::string(45, 'j') + "-worker-" + std::to_string(i);
    const std::string node = std::string(248, 'n') + std::to_string(10'000 + i);
    start.members.push_back({uid, pod, node, std::string(39, 'f'), 0, "0123456789abcdef-1", i});
    order.workers.push_back({uid, pod, node, i});
    status.workers.push_back({uid, true, true, false, false, {}});
  }
  status.ordered = control::kMaxRanks;
  order.replicas = control::kMaxRanks;

  const std::string line = control::Encode(start);
  const std::string text = control::EncodeOrder(order);

  EXPECT_LT(line.size(), control::kMaxLineBytes);
  EXPECT_EQ(std::get<control::StartEpoch>(*control::Decode(line)).members.back().node,
            start.members.back().node);
  EXPECT_LT(text.size(), control::kMaxOrderBytes);
  EXPECT_EQ(control::DecodeOrder(text)->workers.back().pod, order.workers.back().pod);
  EXPECT_EQ(control::DecodeLauncherStatus(EncodeWithin(status))->workers.size(),
            static_cast<std::size_t>(control::kMaxRanks));
}

}  // namespace
}  // namespace ringmaster::launcher
