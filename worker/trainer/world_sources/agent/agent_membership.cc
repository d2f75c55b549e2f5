#include "worker/trainer/world_sources/agent/agent_membership.h"

#include <set>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "worker/trainer/world_sources/agent/agent_channel.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::milliseconds kReportInterval{500};

World ToWorld(const control::RankEpoch& epoch) {
  World world;
  world.epoch = epoch.epoch;
  world.rank = epoch.rank;
  world.size = static_cast<int>(epoch.members.size());
  world.full_size = epoch.full_size;
  const control::Member& self = epoch.members[static_cast<std::size_t>(epoch.rank)];
  world.address = self.address;
  world.ranks_on_host = 0;
  std::set<std::string> workers;
  for (const control::Member& member : epoch.members) {
    const bool here =
        member.pod_uid == self.pod_uid || (!self.node.empty() && member.node == self.node);
    if (here) ++world.ranks_on_host;
    const bool before = std::ssize(world.members) < world.rank;
    if (before && member.pod_uid == self.pod_uid) ++world.local_rank;
    workers.insert(member.pod_uid);
    world.members.push_back(member.pod + "/" + std::to_string(member.slot) + "/" + member.start);
  }
  world.workers = static_cast<int>(workers.size());
  world.one_machine = world.workers == 1;
  return world;
}

// The store of one world.
class EpochStore final : public Store {
 public:
  EpochStore(std::shared_ptr<AgentChannel> channel, control::Epoch epoch, int rank)
      : channel_(std::move(channel)), epoch_(epoch), rank_(rank) {}

  Result<void> Set(const std::string& key, const std::string& value) override {
    return channel_->Send(control::StoreSet{.epoch = epoch_, .key = key, .value = value});
  }
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override {
    return channel_->Ask({.epoch = epoch_, .id = 0, .rank = rank_, .keys = keys}, deadline);
  }

 private:
  const std::shared_ptr<AgentChannel> channel_;
  const control::Epoch epoch_;
  const int rank_;
};

}  // namespace

Result<std::unique_ptr<AgentMembership>> AgentMembership::Connect(const std::string& socket_path,
                                                                  int slot, const Clock& clock) {
  auto client = control::BlockingLineClient::Connect(socket_path);
  if (!client.ok()) return client.error().WithContext("connecting to the agent at " + socket_path);
  return std::unique_ptr<AgentMembership>(new AgentMembership(*std::move(client), slot, clock));
}

AgentMembership::AgentMembership(std::unique_ptr<control::BlockingLineClient> client, int slot,
                                 const Clock& clock)
    : channel_(std::make_shared<AgentChannel>(std::move(client))), slot_(slot), clock_(clock) {
  reader_ = std::jthread([this](const std::stop_token& stop) { Read(stop); });
}

AgentMembership::~AgentMembership() {
  reader_.request_stop();
  channel_->Shutdown();
}

void AgentMembership::Read(const std::stop_token& stop) {
  bool lost = false;
  while (!lost && !stop.stop_requested()) {
    Result<control::Message> message = channel_->Receive();
    if (message.ok()) {
      channel_->Take(*std::move(message));
    } else if (message.error().kind != ErrorKind::kTimeout) {
      channel_->Lose(message.error().WithContext("listening to the agent"));
      lost = true;
    }
    NotifyWatcher();
  }
}

void AgentMembership::Watch(control::Epoch epoch, OverCallback over) {
  {
    const MutexLock lock(watch_mutex_);
    watched_ = Watched{epoch, std::move(over)};
  }
  NotifyWatcher();
}

void AgentMembership::Unwatch() {
  const MutexLock lock(watch_mutex_);
  watched_.reset();
}

void AgentMembership::NotifyWatcher() {
  const MutexLock lock(watch_mutex_);
  if (!watched_) return;
  const std::optional<std::string> why = channel_->WhyOver(watched_->epoch);
  if (!why) return;
  watched_->over(*why);
  watched_.reset();
}

Result<World> AgentMembership::AwaitWorld(control::Epoch after) {
  if (!hello_sent_) {
    const Result<void> sent = channel_->Send(control::RankHello{.slot = slot_, .pid = ::getpid()});
    if (!sent.ok()) return sent.error();
    hello_sent_ = true;
  }
  const Result<control::RankEpoch> epoch = channel_->AwaitEpoch(after);
  if (!epoch.ok()) return epoch.error();
  World world = ToWorld(*epoch);
  world.store = std::make_shared<EpochStore>(channel_, world.epoch, world.rank);
  return world;
}

bool AgentMembership::Leaving(control::Epoch epoch) { return channel_->Leaving(epoch); }

bool AgentMembership::CheckpointWanted(control::Epoch epoch) {
  return channel_->TakeCheckpointWanted(epoch);
}

bool AgentMembership::SwitchWanted(control::Epoch epoch, int64_t) {
  return channel_->SwitchWanted(epoch);
}

// Sends a message. Only logs a failure, because functions that wait fail once the agent is lost.
void AgentMembership::Say(const control::Message& message) {
  const Result<void> sent = channel_->Send(message);
  if (!sent.ok())
    LogWarn("Failed to send a message to the agent", {{"reason", sent.error().message}});
}

void AgentMembership::Broken(const World& world, int peer, const std::string& reason) {
  Say(control::RankBroken{
      .epoch = world.epoch, .rank = world.rank, .peer = peer, .reason = reason});
}

void AgentMembership::AtBoundary(const World& world, int64_t step) {
  Say(control::RankAtBoundary{.epoch = world.epoch, .rank = world.rank, .step = step});
}

void AgentMembership::Report(const World& world, const control::Progress& progress) {
  const Clock::Time now = clock_.Now();
  if (last_report_epoch_ == world.epoch && now - last_report_ < kReportInterval) return;
  last_report_epoch_ = world.epoch;
  last_report_ = now;
  Say(control::RankProgress{.epoch = world.epoch, .progress = progress});
}

Result<bool> AgentMembership::Finish(const World& world, const control::Progress& progress) {
  if (world.rank == 0) Say(control::RankProgress{.epoch = world.epoch, .progress = progress});
  Say(control::RankDone{.epoch = world.epoch, .rank = world.rank, .trained = !nothing_trained_});
  Result<AgentChannel::Event> event = channel_->AwaitEnd(world.epoch, /*or_switch=*/true);
  if (event.ok() && *event == AgentChannel::Event::kSwitch) {
    AtBoundary(world, progress.step);
    event = channel_->AwaitEnd(world.epoch, /*or_switch=*/false);
  }
  if (!event.ok()) return event.error();
  return *event == AgentChannel::Event::kReleased;
}

// If a world ends before the launcher has answered, the request is sent again in the next world:
// the written state is committed in every world of which this rank is still a member.
Result<void> AgentMembership::AwaitGrant(const WrittenShard& shard, const std::stop_token& stop) {
  control::Epoch asked;
  for (;;) {
    const Result<control::RankEpoch> world = channel_->AwaitEpoch(asked, stop);
    if (!world.ok()) return world.error();
    asked = world->epoch;
    const control::CheckpointWritten written{.epoch = world->epoch,
                                             .rank = world->rank,
                                             .step = shard.step,
                                             .shard = shard.shard,
                                             .bytes = shard.bytes,
                                             .checksum = shard.checksum};
    if (Result<void> sent = channel_->Send(written); !sent.ok()) return sent.error();
    const Result<bool> granted = channel_->AwaitGrant(written, stop);
    if (!granted.ok()) return granted.error();
    if (!*granted) continue;
    granted_ = written;
    return {};
  }
}

void AgentMembership::CheckpointComplete(int64_t step, int64_t bytes) {
  Say(control::CheckpointDone{
      .epoch = granted_.epoch, .rank = granted_.rank, .step = step, .bytes = bytes});
}

void AgentMembership::Began(const World& world, const Beginning& beginning) {
  Say(control::RankBegan{.epoch = world.epoch,
                         .rank = world.rank,
                         .beginning = {.step = beginning.version.step, .message = beginning.text},
                         .kept = beginning.kept});
}

void AgentMembership::Unprotected(const std::string& what, const std::string& reason) {
  Say(control::RankProtection{.slot = slot_, .what = what, .fault = reason});
}

}  // namespace ringmaster::trainer
