#pragma once

// What a launcher that was started anew is told of the world that runs: the agents' WorldReports,
// newest per Pod. The highest epoch among them wins; a Pod that reports a lower one still tells
// who of the winner's members runs there. Pure; used by Membership alone.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/control/messages.h"

namespace ringmaster::launcher {

class Adoption {
 public:
  void Report(const std::string& pod_uid, const control::WorldReport& report);
  void Clear() { reports_.clear(); }

  bool empty() const { return reports_.empty(); }
  // REQUIRES: !empty(). The report of the highest epoch.
  const control::WorldReport& Newest() const;

  // What its Pod said of this member; nothing where the Pod has not reported.
  std::optional<bool> Runs(const control::Member& member) const;

  // More than half of the newest world's Pods have reported.
  bool HeardFromMost() const;

  // Every member's Pod names the newest epoch: it has started everywhere.
  bool StartedEverywhere() const;

 private:
  std::map<std::string, control::WorldReport> reports_;  // by Pod UID
};

}  // namespace ringmaster::launcher
