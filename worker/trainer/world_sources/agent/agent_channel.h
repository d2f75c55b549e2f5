#pragma once

// A rank's connection to its agent, and the received messages: worlds and their ends, answers of
// the store, and grants. One thread receives messages and passes them on (Take(), Lose()); other
// threads wait for them. Used by AgentMembership and by its worlds' stores, which may outlive it.
//
// Thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/control/blocking_line_client.h"
#include "common/control/membership.h"
#include "common/control/messages.h"
#include "common/control/rank_agent_messages.h"
#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

class AgentChannel {
 public:
  explicit AgentChannel(std::unique_ptr<control::BlockingLineClient> client)
      : client_(std::move(client)) {}

  Result<void> Send(const control::Message& message);
  // kTimeout: there was no message for an hour.
  Result<control::Message> Receive();
  void Shutdown() { client_->Shutdown(); }

  void Take(control::Message message);
  void Lose(Error error);

  // Returns why the ranks of `epoch` must leave this epoch; empty while the epoch is valid.
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

  // Blocks until there is a world of a higher epoch than `after`. kCancelled: `stop` was requested.
  Result<control::RankEpoch> AwaitEpoch(control::Epoch after, const std::stop_token& stop = {});
  enum class Event { kReleased, kOver, kSwitch };
  Result<Event> AwaitEnd(control::Epoch epoch, bool or_switch);
  Result<std::vector<std::string>> Ask(control::StoreGet request, Deadline deadline);
  // Blocks until this checkpoint is granted in its epoch (true) or the epoch has ended (false).
  Result<bool> AwaitGrant(const control::CheckpointWritten& written, const std::stop_token& stop);

 private:
  void Wake();
  std::optional<std::string> WhyOverLocked(control::Epoch epoch) const RINGMASTER_REQUIRES(mutex_);

  const std::unique_ptr<control::BlockingLineClient> client_;  // thread-safe

  Mutex mutex_;
  CondVar changed_;
  // The highest epoch that the agent sent.
  std::optional<control::RankEpoch> newest_ RINGMASTER_GUARDED_BY(mutex_);
  control::Epoch below_ RINGMASTER_GUARDED_BY(mutex_);  // every lower epoch is over
  // The newest epoch that the ranks must leave at a step boundary.
  control::Epoch switch_ RINGMASTER_GUARDED_BY(mutex_);
  // Whether this rank is not a member of the world that follows switch_.
  bool leaving_ RINGMASTER_GUARDED_BY(mutex_) = false;
  control::Epoch released_ RINGMASTER_GUARDED_BY(mutex_);
  std::optional<control::CheckpointGrant> grant_ RINGMASTER_GUARDED_BY(mutex_);  // the newest grant
  // The epoch in which a checkpoint is requested. TakeCheckpointWanted() resets it.
  std::optional<control::Epoch> take_checkpoint_ RINGMASTER_GUARDED_BY(mutex_);
  std::optional<Error> lost_ RINGMASTER_GUARDED_BY(mutex_);  // why the connection ended
  // Pending requests to the store, by id; the values are the answers that have arrived.
  std::map<int64_t, std::optional<std::vector<std::string>>> questions_
      RINGMASTER_GUARDED_BY(mutex_);
  int64_t next_id_ RINGMASTER_GUARDED_BY(mutex_) = 1;
};

}  // namespace ringmaster::trainer
