#pragma once

// The progress of an elastic job from one world to the next: the SwitchEpoch that was sent, the
// ranks' answers, and the proposal that workers are accepting. A value; each change starts with a
// new object.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/control/rank_agent_messages.h"
#include "worker/launcher/model/next_world.h"

namespace ringmaster::launcher {

struct ChangeProgress {
  using Time = Clock::Time;

  std::optional<Proposal> proposal;  // set while kForming, and while kPaused below min_replicas
  Time prepared_at{};                // when the proposal was prepared
  std::string pause_reason;          // why the next world cannot start
  bool switching = false;            // SwitchEpoch was sent
  bool orderly = false;              // every rank of this world stopped after the same step
  std::set<int> at_boundary;         // ranks that reported that they are at the boundary
  std::optional<Time> first_at_boundary;
  std::map<int, control::RankBroken> broken;  // by rank
  std::optional<Time> first_broken_at;

  void ReachBoundary(Time now, int rank);
  // Records that a rank cannot continue. A later report of the rank replaces an earlier one.
  void Break(Time now, const control::RankBroken& word);
  // Like Break(), but derived from the ranks' positions. A report of the rank takes precedence.
  void BreakUnlessReported(Time now, const control::RankBroken& word);
  // Returns whether each rank has stopped after the step or is in `done` (past its last step).
  bool AllReportedBoundary(const std::set<int>& done, int world_size) const;
  // Like AllReportedBoundary(), but also true once the first report is older than `patience`: all
  // ranks stop after the same step, so the missing reports may have been lost with a connection.
  bool AllAtBoundary(Time now, const std::set<int>& done, int world_size,
                     std::chrono::milliseconds patience) const;
  // Returns whether each rank has reported that it cannot continue or was found unable to connect.
  // If so, no rank is lost.
  bool AllBroken(int world_size) const;
  // Returns the ranks that cannot continue, and the peer that each rank could not reach.
  std::map<int, int> BrokenPeers() const;
};

}  // namespace ringmaster::launcher
