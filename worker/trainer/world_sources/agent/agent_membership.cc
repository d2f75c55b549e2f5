#include "worker/trainer/world_sources/agent/agent_membership.h"

#include <algorithm>
#include <map>
#include <unistd.h>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "common/base/mutex.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::milliseconds kReportInterval{500};
constexpr std::chrono::seconds kSendLimit{10};

// Whether ranks are 0 … size - 1 and ours is one of them.
bool IsSound(const control::RankEpoch& epoch) {
  return epoch.rank >= 0 && static_cast<std::size_t>(epoch.rank) < epoch.members.size();
}

World ToWorld(const control::RankEpoch& epoch) {
  World world;
  world.epoch = epoch.epoch;
  world.rank = epoch.rank;
  world.size = static_cast<int>(epoch.members.size());
  const control::Member& self = epoch.members[static_cast<std::size_t>(epoch.rank)];
  world.address = self.address;
  world.ranks_on_host = 0;
  world.one_machine = true;
  for (const control::Member& member : epoch.members) {
    const bool here =
        member.pod_uid == self.pod_uid || (!self.node.empty() && member.node == self.node);
    if (here) ++world.ranks_on_host;
    if (member.pod_uid != self.pod_uid) world.one_machine = false;
    world.members.push_back(member.pod + "/" + std::to_string(member.slot) + "/" + member.start);
  }
  return world;
}

}  // namespace

// Thread-safe.
class AgentMembership::Channel {
 public:
  explicit Channel(std::unique_ptr<control::BlockingLineClient> client)
      : client_(std::move(client)) {}

  Result<void> Send(const control::Message& message) {
    return client_->Send(message, std::chrono::steady_clock::now() + kSendLimit);
  }
  Result<control::Message> Receive() {
    return client_->Receive(std::chrono::steady_clock::now() + std::chrono::hours(1));
  }
  void Shutdown() { client_->Shutdown(); }
  void Wake() {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  }

  void Take(control::Message message);
  void Lose(Error error);

  // Why ranks of `epoch` must leave it; nothing while it holds.
  std::optional<std::string> WhyOver(control::Epoch epoch) {
    const MutexLock lock(mutex_);
    return WhyOverLocked(epoch);
  }
  bool Leaving(control::Epoch epoch) {
    const MutexLock lock(mutex_);
    return switch_ == epoch && leaving_;
  }
  bool SwitchWanted(control::Epoch epoch) {
    const MutexLock lock(mutex_);
    return switch_ == epoch;
  }
  bool TakeCheckpointWanted(control::Epoch epoch) {
    const MutexLock lock(mutex_);
    return std::exchange(take_checkpoint_, std::nullopt) == epoch;
  }

  Result<control::RankEpoch> AwaitEpoch(control::Epoch after);
  enum class Event { kReleased, kOver, kSwitch };
  Result<Event> AwaitEnd(control::Epoch epoch, bool or_switch);
  Result<std::vector<std::string>> Ask(control::StoreGet request, Deadline deadline);
  // Blocks for a world of a higher epoch than `after`; kCancelled: stopped.
  Result<control::RankEpoch> AwaitPresent(control::Epoch after, const std::stop_token& stop);
  // Blocks until this checkpoint is granted in its epoch (true) or the epoch is over (false).
  Result<bool> AwaitGrant(const control::CheckpointWritten& written, const std::stop_token& stop);

 private:
  std::optional<std::string> WhyOverLocked(control::Epoch epoch) const RINGMASTER_REQUIRES(mutex_);

  const std::unique_ptr<control::BlockingLineClient> client_;  // thread-safe

  Mutex mutex_;
  CondVar changed_;
  // The highest the agent sent.
  std::optional<control::RankEpoch> newest_ RINGMASTER_GUARDED_BY(mutex_);
  control::Epoch below_ RINGMASTER_GUARDED_BY(mutex_);  // every epoch below is over
  // The newest that shall be left at a boundary.
  control::Epoch switch_ RINGMASTER_GUARDED_BY(mutex_);
  // This rank will not be in the epoch after switch_.
  bool leaving_ RINGMASTER_GUARDED_BY(mutex_) = false;
  control::Epoch released_ RINGMASTER_GUARDED_BY(mutex_);
  std::optional<control::CheckpointGrant> grant_ RINGMASTER_GUARDED_BY(mutex_);  // the newest
  // In this world; until it is asked about.
  std::optional<control::Epoch> take_checkpoint_ RINGMASTER_GUARDED_BY(mutex_);
  std::optional<Error> lost_ RINGMASTER_GUARDED_BY(mutex_);  // why the connection ended
  // Store questions under way, by id, with their answers.
  std::map<int64_t, std::optional<std::vector<std::string>>> questions_
      RINGMASTER_GUARDED_BY(mutex_);
  int64_t next_id_ RINGMASTER_GUARDED_BY(mutex_) = 1;
};

void AgentMembership::Channel::Take(control::Message message) {
  const MutexLock lock(mutex_);
  if (auto* epoch = std::get_if<control::RankEpoch>(&message)) {
    if (!IsSound(*epoch)) {
      LogWarn("Ignored a world that does not hold together",
              {{"number", epoch->epoch.number}, {"rank", epoch->rank}});
    } else if (!newest_ || newest_->epoch < epoch->epoch) {
      newest_ = std::move(*epoch);
    }
  } else if (const auto* leave = std::get_if<control::RankLeave>(&message)) {
    below_ = std::max(below_, leave->below);
  } else if (const auto* wanted = std::get_if<control::RankSwitch>(&message)) {
    switch_ = std::max(switch_, wanted->epoch);
    if (wanted->epoch == switch_) leaving_ = wanted->leaving;
  } else if (const auto* release = std::get_if<control::Release>(&message)) {
    released_ = std::max(released_, release->epoch);
  } else if (const auto* grant = std::get_if<control::CheckpointGrant>(&message)) {
    grant_ = *grant;
  } else if (const auto* take = std::get_if<control::TakeCheckpoint>(&message)) {
    take_checkpoint_ = take->epoch;
  } else if (auto* values = std::get_if<control::StoreValues>(&message)) {
    const auto question = questions_.find(values->id);
    if (question != questions_.end()) question->second = std::move(values->values);
  } else {
    LogDebug("Ignored a message of the agent", {{"type", control::TypeName(message)}});
  }
  changed_.NotifyAll();
}

void AgentMembership::Channel::Lose(Error error) {
  const MutexLock lock(mutex_);
  lost_ = std::move(error);
  changed_.NotifyAll();
}

std::optional<std::string> AgentMembership::Channel::WhyOverLocked(control::Epoch epoch) const {
  if (lost_) return lost_->message;
  if (epoch < below_) return "the launcher gave this world up";
  if (newest_ && epoch < newest_->epoch) return "a newer world has started";
  return {};
}

Result<control::RankEpoch> AgentMembership::Channel::AwaitEpoch(control::Epoch after) {
  MutexLock lock(mutex_);
  const auto ready = [&]() RINGMASTER_REQUIRES(mutex_) {
    return newest_ && after < newest_->epoch && !(newest_->epoch < below_);
  };
  changed_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) { return lost_ || ready(); });
  if (lost_) return *lost_;
  return *newest_;
}

Result<AgentMembership::Channel::Event> AgentMembership::Channel::AwaitEnd(control::Epoch epoch,
                                                                           bool or_switch) {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) {
    return !(released_ < epoch) || WhyOverLocked(epoch) || (or_switch && switch_ == epoch);
  });
  if (!(released_ < epoch)) return Event::kReleased;
  if (lost_) return lost_->WithContext("waiting for the release of the finished ranks");
  return WhyOverLocked(epoch) ? Event::kOver : Event::kSwitch;
}

Result<std::vector<std::string>> AgentMembership::Channel::Ask(control::StoreGet request,
                                                               Deadline deadline) {
  MutexLock lock(mutex_);
  request.id = next_id_++;
  questions_[request.id];
  lock.Unlock();
  const Result<void> sent = Send(request);
  lock.Lock();
  if (sent.ok()) {
    changed_.WaitUntil(mutex_, deadline, [&]() RINGMASTER_REQUIRES(mutex_) {
      return questions_[request.id] || WhyOverLocked(request.epoch);
    });
  }
  const std::optional<std::vector<std::string>> values = std::move(questions_[request.id]);
  questions_.erase(request.id);
  if (!sent.ok()) return sent.error();
  if (!values) {
    if (const auto why = WhyOverLocked(request.epoch)) return Error{ErrorKind::kCancelled, *why};
    return Error{ErrorKind::kTimeout,
                 "not every rank has published its address in time (asked "
                 "for " +
                     std::to_string(request.keys.size()) + " keys)"};
  }
  if (values->size() != request.keys.size()) {
    return Error{ErrorKind::kInternal, "the rendezvous store answered with " +
                                           std::to_string(values->size()) + " values for " +
                                           std::to_string(request.keys.size()) + " keys"};
  }
  return *values;
}

Result<control::RankEpoch> AgentMembership::Channel::AwaitPresent(control::Epoch after,
                                                                  const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { Wake(); });
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) {
    return stop.stop_requested() || lost_ ||
           (newest_ && after < newest_->epoch && !(newest_->epoch < below_));
  });
  if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "asked to stop"};
  if (lost_) return *lost_;
  return *newest_;
}

Result<bool> AgentMembership::Channel::AwaitGrant(const control::CheckpointWritten& written,
                                                  const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { Wake(); });
  const auto granted = [&]() RINGMASTER_REQUIRES(mutex_) {
    return grant_ && grant_->epoch == written.epoch && grant_->step == written.step &&
           grant_->shard == written.shard;
  };
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) {
    return stop.stop_requested() || granted() || WhyOverLocked(written.epoch).has_value();
  });
  if (granted()) return true;
  if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "asked to stop"};
  if (lost_) return *lost_;
  return false;
}

class AgentMembership::EpochStore final : public Store {
 public:
  EpochStore(std::shared_ptr<Channel> channel, control::Epoch epoch, int rank)
      : channel_(std::move(channel)), epoch_(epoch), rank_(rank) {}

  Result<void> Set(const std::string& key, const std::string& value) override {
    return channel_->Send(control::StoreSet{.epoch = epoch_, .key = key, .value = value});
  }
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override {
    return channel_->Ask({.epoch = epoch_, .id = 0, .rank = rank_, .keys = keys}, deadline);
  }

 private:
  const std::shared_ptr<Channel> channel_;
  const control::Epoch epoch_;
  const int rank_;
};

Result<std::unique_ptr<AgentMembership>> AgentMembership::Connect(const std::string& socket_path,
                                                                  int slot, const Clock& clock) {
  auto client = control::BlockingLineClient::Connect(socket_path);
  if (!client.ok()) return client.error().WithContext("connecting to the agent at " + socket_path);
  return std::unique_ptr<AgentMembership>(new AgentMembership(*std::move(client), slot, clock));
}

AgentMembership::AgentMembership(std::unique_ptr<control::BlockingLineClient> client, int slot,
                                 const Clock& clock)
    : channel_(std::make_shared<Channel>(std::move(client))), slot_(slot), clock_(clock) {
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
    TellWatcher();
  }
}

void AgentMembership::Watch(control::Epoch epoch, OverCallback over) {
  {
    const MutexLock lock(watch_mutex_);
    watched_ = Watched{epoch, std::move(over)};
  }
  TellWatcher();
}

void AgentMembership::Unwatch() {
  const MutexLock lock(watch_mutex_);
  watched_.reset();
}

void AgentMembership::TellWatcher() {
  const MutexLock lock(watch_mutex_);
  if (!watched_) return;
  const std::optional<std::string> why = channel_->WhyOver(watched_->epoch);
  if (!why) return;
  watched_->over(*why);
  watched_.reset();
}

Result<World> AgentMembership::AwaitWorld(control::Epoch after) {
  if (!greeted_) {
    const Result<void> sent = channel_->Send(control::RankHello{.slot = slot_, .pid = ::getpid()});
    if (!sent.ok()) return sent.error();
    greeted_ = true;
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

// A message that cannot be sent means a lost agent, which every wait reports.
void AgentMembership::Say(const control::Message& message) {
  const Result<void> sent = channel_->Send(message);
  if (!sent.ok()) LogWarn("Could not tell the agent", {{"reason", sent.error().message}});
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
  Result<Channel::Event> event = channel_->AwaitEnd(world.epoch, /*or_switch=*/true);
  if (event.ok() && *event == Channel::Event::kSwitch) {
    AtBoundary(world, progress.step);
    event = channel_->AwaitEnd(world.epoch, /*or_switch=*/false);
  }
  if (!event.ok()) return event.error();
  return *event == Channel::Event::kReleased;
}

// A world that ends before the launcher has answered is followed by another question: what was
// written is a committed state of every world that this rank is still a member of.
Result<void> AgentMembership::AwaitGrant(const WrittenShard& shard, const std::stop_token& stop) {
  control::Epoch asked;
  for (;;) {
    const Result<control::RankEpoch> world = channel_->AwaitPresent(asked, stop);
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
