#include "worker/trainer/world_sources/agent/agent_channel.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

constexpr std::chrono::seconds kSendLimit{10};

// Returns whether epoch.rank is one of the ranks 0 … size - 1.
bool IsSound(const control::RankEpoch& epoch) {
  return epoch.rank >= 0 && static_cast<std::size_t>(epoch.rank) < epoch.members.size();
}

}  // namespace

Result<void> AgentChannel::Send(const control::Message& message) {
  return client_->Send(message, std::chrono::steady_clock::now() + kSendLimit);
}

Result<control::Message> AgentChannel::Receive() {
  return client_->Receive(std::chrono::steady_clock::now() + std::chrono::hours(1));
}

void AgentChannel::Wake() {
  const MutexLock lock(mutex_);
  changed_.NotifyAll();
}

void AgentChannel::Take(control::Message message) {
  const MutexLock lock(mutex_);
  if (auto* epoch = std::get_if<control::RankEpoch>(&message)) {
    if (!IsSound(*epoch)) {
      LogWarn("Ignored an inconsistent world",
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

void AgentChannel::Lose(Error error) {
  const MutexLock lock(mutex_);
  lost_ = std::move(error);
  changed_.NotifyAll();
}

std::optional<std::string> AgentChannel::WhyOverLocked(control::Epoch epoch) const {
  if (lost_) return lost_->message;
  if (epoch < below_) return "the launcher abandoned this world";
  if (newest_ && epoch < newest_->epoch) return "a newer world has started";
  return {};
}

Result<control::RankEpoch> AgentChannel::AwaitEpoch(control::Epoch after,
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

Result<AgentChannel::Event> AgentChannel::AwaitEnd(control::Epoch epoch, bool or_switch) {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) {
    return !(released_ < epoch) || WhyOverLocked(epoch) || (or_switch && switch_ == epoch);
  });
  if (!(released_ < epoch)) return Event::kReleased;
  if (lost_) return lost_->WithContext("waiting for the release of the finished ranks");
  return WhyOverLocked(epoch) ? Event::kOver : Event::kSwitch;
}

Result<std::vector<std::string>> AgentChannel::Ask(control::StoreGet request, Deadline deadline) {
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
                 "not all ranks published their addresses in time (requested " +
                     std::to_string(request.keys.size()) + " keys)"};
  }
  if (values->size() != request.keys.size()) {
    return Error{ErrorKind::kInternal, "the rendezvous store returned " +
                                           std::to_string(values->size()) + " values for " +
                                           std::to_string(request.keys.size()) + " keys"};
  }
  return *values;
}

Result<bool> AgentChannel::AwaitGrant(const control::CheckpointWritten& written,
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

}  // namespace ringmaster::trainer
