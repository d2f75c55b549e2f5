#include "worker/trainer/agent_membership.h"

#include <algorithm>
#include <unistd.h>
#include <utility>
#include <variant>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::milliseconds kReportInterval{500};
constexpr std::chrono::seconds kSendLimit{10};
constexpr std::chrono::seconds kVerdictLimit{10};

World ToWorld(const control::RankEpoch& epoch) {
  World world;
  world.epoch = epoch.epoch;
  world.rank = epoch.rank;
  world.size = static_cast<int>(epoch.members.size());
  const auto self =
      std::find_if(epoch.members.begin(), epoch.members.end(),
                   [&](const control::Member& member) { return member.rank == epoch.rank; });
  if (self == epoch.members.end()) return world;
  world.address = self->address;
  world.ranks_on_host = static_cast<int>(
      std::count_if(epoch.members.begin(), epoch.members.end(), [&](const control::Member& member) {
        return member.pod_uid == self->pod_uid ||
               (!self->node.empty() && member.node == self->node);
      }));
  return world;
}

}  // namespace

Result<std::unique_ptr<AgentMembership>> AgentMembership::Connect(const std::string& socket_path,
                                                                  int slot, const Clock& clock) {
  auto client = control::BlockingLineClient::Connect(socket_path);
  if (!client.ok()) return client.error().WithContext("connecting to the agent at " + socket_path);
  return std::unique_ptr<AgentMembership>(new AgentMembership(*std::move(client), slot, clock));
}

AgentMembership::AgentMembership(std::unique_ptr<control::BlockingLineClient> client, int slot,
                                 const Clock& clock)
    : client_(std::move(client)), slot_(slot), clock_(clock) {
  reader_ = std::jthread([this](const std::stop_token& stop) { Read(stop); });
}

AgentMembership::~AgentMembership() {
  reader_.request_stop();
  client_->Shutdown();
}

void AgentMembership::Read(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Result<control::Message> message =
        client_->Receive(std::chrono::steady_clock::now() + std::chrono::hours(1));
    if (message.ok()) {
      Take(*std::move(message));
    } else if (message.error().kind != ErrorKind::kTimeout) {
      const std::lock_guard lock(mutex_);
      lost_ = message.error().WithContext("listening to the agent");
      changed_.notify_all();
      return;
    }
  }
}

void AgentMembership::Take(control::Message message) {
  const std::lock_guard lock(mutex_);
  if (auto* epoch = std::get_if<control::RankEpoch>(&message)) {
    if (!epoch_ || epoch_->epoch < epoch->epoch) epoch_ = std::move(*epoch);
  } else if (const auto* release = std::get_if<control::Release>(&message)) {
    released_ = release->epoch;
  } else if (auto* values = std::get_if<control::StoreValues>(&message)) {
    answers_[values->id] = std::move(values->values);
  } else {
    LogDebug("Ignored a message of the agent", {{"type", control::TypeName(message)}});
  }
  changed_.notify_all();
}

Result<void> AgentMembership::Send(const control::Message& message) {
  return client_->Send(message, std::chrono::steady_clock::now() + kSendLimit);
}

Result<World> AgentMembership::AwaitWorld() {
  if (!greeted_) {
    const Result<void> sent = Send(control::RankHello{.slot = slot_, .pid = ::getpid()});
    if (!sent.ok()) return sent.error();
    greeted_ = true;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return epoch_.has_value() || lost_.has_value(); });
  if (!epoch_) return *lost_;
  return ToWorld(*epoch_);
}

void AgentMembership::Report(const control::Progress& progress) {
  const Clock::Time now = clock_.Now();
  if (last_report_ && now - *last_report_ < kReportInterval) return;
  last_report_ = now;
  control::RankProgress report{.epoch = {}, .progress = progress};
  {
    const std::lock_guard lock(mutex_);
    report.epoch = epoch_->epoch;
  }
  const Result<void> sent = Send(report);
  if (!sent.ok()) LogWarn("Could not report progress", {{"reason", sent.error().message}});
}

Result<void> AgentMembership::Finish(const control::Progress& progress) {
  std::unique_lock lock(mutex_);
  const control::RankEpoch epoch = *epoch_;
  lock.unlock();
  if (epoch.rank == 0) {
    const Result<void> last =
        Send(control::RankProgress{.epoch = epoch.epoch, .progress = progress});
    if (!last.ok()) return last.error();
  }
  const Result<void> done = Send(control::RankDone{.epoch = epoch.epoch, .rank = epoch.rank});
  if (!done.ok()) return done.error();
  lock.lock();
  changed_.wait(lock, [&] { return lost_ || (released_ && *released_ >= epoch.epoch); });
  if (released_ && *released_ >= epoch.epoch) return {};
  return lost_->WithContext("waiting for the release of the finished ranks");
}

void AgentMembership::Broken(const std::string& reason) {
  LogWarn("Lost the other ranks, waiting for the launcher's decision", {{"reason", reason}});
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kVerdictLimit, [&] { return lost_.has_value(); });
}

Result<void> AgentMembership::Set(const std::string& key, const std::string& value) {
  control::StoreSet message{.epoch = {}, .key = key, .value = value};
  {
    const std::lock_guard lock(mutex_);
    message.epoch = epoch_->epoch;
  }
  return Send(message);
}

Result<std::vector<std::string>> AgentMembership::Get(const std::vector<std::string>& keys,
                                                      Deadline deadline) {
  std::unique_lock lock(mutex_);
  const control::StoreGet request{
      .epoch = epoch_->epoch, .id = next_id_++, .rank = epoch_->rank, .keys = keys};
  lock.unlock();
  const Result<void> sent = Send(request);
  if (!sent.ok()) return sent.error();
  lock.lock();
  const bool known =
      changed_.wait_until(lock, deadline, [&] { return lost_ || answers_.contains(request.id); });
  if (const auto answer = answers_.find(request.id); answer != answers_.end()) {
    std::vector<std::string> values = std::move(answer->second);
    answers_.erase(answer);
    if (values.size() != keys.size()) {
      return Error{ErrorKind::kInternal, "the rendezvous store answered with " +
                                             std::to_string(values.size()) + " values for " +
                                             std::to_string(keys.size()) + " keys"};
    }
    return values;
  }
  if (known) return *lost_;
  return Error{ErrorKind::kTimeout, "not every rank has published its address in time (asked for " +
                                        std::to_string(keys.size()) + " keys)"};
}

}  // namespace ringmaster::trainer
