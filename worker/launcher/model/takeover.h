#pragma once

// Collects the agents' WorldReports, from which a restarted launcher learns about the running
// world. Only the newest report of each Pod counts. The launcher takes over the world with the
// highest epoch; reports of lower epochs still show which members run. The launcher asks an agent
// of this world for the members, and keeps reports of ranks until the agent answers. A value.

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/control/messages.h"
#include "worker/launcher/model/actions.h"

namespace ringmaster::launcher {

class Takeover {
 public:
  using Time = Clock::Time;
  using Connections = std::map<ConnectionId, std::string>;  // → Pod UID
  // The newest message of each type, by Pod UID, rank and type. Rank -1: all ranks of the Pod.
  using EarlyMessages = std::map<std::tuple<std::string, int, std::size_t>, control::Message>;

  void Report(const std::string& pod_uid, const control::WorldReport& report);
  void ForgetReports();

  // The highest epoch that was reported; {0, 0}: none.
  const control::Epoch& newest() const { return newest_; }
  // The highest epoch that was reported with members, and these members; {0, 0}: none.
  const control::Epoch& epoch() const { return epoch_; }
  const std::vector<control::Member>& members() const { return members_; }
  // Returns whether a launcher has released the ranks of epoch(): all had completed the last step.
  bool Released() const { return released_.number > 0 && released_ == epoch_; }
  // Returns whether the Pod reported the newest epoch, whose members its agent then knows.
  bool Knows(const std::string& pod_uid) const;

  // Returns whether the member runs, according to its Pod; nullopt if the Pod has not reported.
  std::optional<bool> Runs(const control::Member& member) const;

  // Returns whether more than half of the members' Pods have reported.
  bool MostReported() const;

  // Returns whether every member's Pod reported epoch(): the world has started in all Pods.
  bool StartedEverywhere() const;

  // Returns whether a connected agent reported a world after `known` whose members are unknown.
  bool MembersPending(const control::Epoch& known, const Connections& connections) const;
  // Returns an agent that knows the members and must be asked for them now; nullopt if another
  // agent was asked less than `again` ago and may still answer. REQUIRES: MembersPending().
  std::optional<ConnectionId> AskNow(Time now, const Connections& connections,
                                     std::chrono::milliseconds again);

  void Begin(Time now) { began_at_ = now; }
  Time began_at() const { return began_at_; }

  void Keep(const std::string& pod_uid, int rank, control::Message message);
  void ForgetEarly() { early_.clear(); }
  EarlyMessages TakeEarly() { return std::exchange(early_, {}); }

 private:
  struct Reported {
    control::Epoch epoch;
    std::vector<std::string> running;
  };
  std::map<std::string, Reported> reports_;  // by Pod UID
  control::Epoch newest_;
  control::Epoch epoch_;
  control::Epoch released_;  // the highest epoch that was reported as released
  std::vector<control::Member> members_;
  ConnectionId asked_ = 0;
  Time asked_at_{};
  Time began_at_{};
  EarlyMessages early_;
};

}  // namespace ringmaster::launcher
