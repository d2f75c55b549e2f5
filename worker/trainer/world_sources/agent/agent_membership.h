#pragma once

// Membership from the agent that started this rank, over the agent's unix socket. The messages
// (common/control/rank_agent_messages.h) are RankHello, RankEpoch, RankLeave, RankSwitch,
// RankBroken, RankAtBoundary, RankProgress, RankDone, Release, and those of checkpoints and of the
// rendezvous store.
//
// A thread reads messages and calls the callback of Watch() directly, so that a rank stops waiting
// for an unresponsive peer as soon as its world ends. A rank ends with its agent: if the connection
// is lost, every wait ends and no other world follows.

#include <memory>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/control/blocking_line_client.h"
#include "common/control/messages.h"
#include "common/control/rank_agent_messages.h"
#include "worker/trainer/elastic/membership_source.h"

namespace ringmaster::trainer {

class AgentChannel;

// Thread-safety: see MembershipSource. Any thread may use a world's store, which may outlive it.
class AgentMembership final : public MembershipSource {
 public:
  // Connects to the agent without sending a message. `clock` must outlive the object.
  static Result<std::unique_ptr<AgentMembership>> Connect(const std::string& socket_path, int slot,
                                                          const Clock& clock);
  ~AgentMembership() override;

  Result<World> AwaitWorld(control::Epoch after) override;
  void Watch(control::Epoch epoch, OverCallback over) override;
  void Unwatch() override;
  bool SwitchWanted(control::Epoch epoch, int64_t step) override;
  bool Leaving(control::Epoch epoch) override;
  bool CheckpointWanted(control::Epoch epoch) override;
  void Broken(const World& world, int peer, const std::string& reason) override;
  void AtBoundary(const World& world, int64_t step) override;
  void Report(const World& world, const control::Progress& progress) override;
  Result<bool> Finish(const World& world, const control::Progress& progress) override;
  Result<void> AwaitGrant(const WrittenShard& shard, const std::stop_token& stop) override;
  void CheckpointComplete(int64_t step, int64_t bytes) override;
  void Began(const World& world, const Beginning& beginning) override;
  void NothingTrained() override { nothing_trained_ = true; }
  void Unprotected(const std::string& what, const std::string& reason) override;

 private:
  AgentMembership(std::unique_ptr<control::BlockingLineClient> client, int slot,
                  const Clock& clock);

  void Read(const std::stop_token& stop);
  void NotifyWatcher();
  void Say(const control::Message& message);

  // Never changes. Stores share the channel, because an abandoned thread may still use a store.
  const std::shared_ptr<AgentChannel> channel_;
  const int slot_;
  const Clock& clock_;

  // Locked while the callback runs, so that it does not run after Unwatch(). The callback must not
  // call this object.
  Mutex watch_mutex_;
  struct Watched {
    control::Epoch epoch;
    OverCallback over;
  };
  std::optional<Watched> watched_ RINGMASTER_GUARDED_BY(watch_mutex_);

  // Used only by the thread that calls the functions of worlds and steps.
  bool hello_sent_ = false;
  bool nothing_trained_ = false;
  control::Epoch last_report_epoch_;
  Clock::Time last_report_{};

  // Used only by the thread that calls the functions of checkpoints.
  control::CheckpointWritten granted_;

  std::jthread reader_;  // last, so that the thread ends before the other members
};

}  // namespace ringmaster::trainer
