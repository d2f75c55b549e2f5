#pragma once

// What a launcher that was started anew is told of the world that runs: the agents' WorldReports,
// newest per Pod. The highest epoch among them wins; a Pod that reports a lower one still tells
// who of the winner's members runs there. Who its members are, one of them is asked. Pure; used by
// Membership alone.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/control/messages.h"

namespace ringmaster::launcher {

class Adoption {
 public:
  void Report(const std::string& pod_uid, const control::WorldReport& report);
  void Clear();

  // The highest epoch reported; {0, 0}: none.
  const control::Epoch& newest() const { return newest_; }
  // The highest epoch of which somebody has said who its members are, and they; {0, 0}: none.
  const control::Epoch& epoch() const { return epoch_; }
  const std::vector<control::Member>& members() const { return members_; }
  // Its report was of the newest epoch: it can say who the members are.
  bool Knows(const std::string& pod_uid) const;

  // What its Pod said of this member; nothing where the Pod has not reported.
  std::optional<bool> Runs(const control::Member& member) const;

  // More than half of the members' Pods have reported.
  bool HeardFromMost() const;

  // Every member's Pod names epoch(): it has started everywhere.
  bool StartedEverywhere() const;

 private:
  struct Said {
    control::Epoch epoch;
    std::vector<std::string> running;
  };
  std::map<std::string, Said> reports_;  // by Pod UID
  control::Epoch newest_;
  control::Epoch epoch_;
  std::vector<control::Member> members_;
};

}  // namespace ringmaster::launcher
