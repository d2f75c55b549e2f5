#pragma once

// The progress of an elastic job from one world to the next: the switch that the ranks were asked
// for, their answers, and the proposal that workers are accepting. A value; each change starts with
// a new one.

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

  std::optional<Proposal> proposal;  // while kForming, and while kPaused below min_replicas
  Time prepared_at{};                // the proposal
  std::string pause_reason;          // why the next world cannot start
  bool switching = false;            // SwitchEpoch was sent
  bool orderly = false;              // every rank of this world has stopped after the same step
  std::set<int> at_boundary;         // ranks
  std::optional<Time> first_at_boundary;
  std::map<int, control::RankBroken> broken;  // by rank
  std::optional<Time> first_broken_at;

  void ReachBoundary(Time now, int rank);
  // A rank reports that it cannot continue; its latest report counts.
  void Break(Time now, const control::RankBroken& word);
  // The same, told by what others see; what the rank itself has said counts more.
  void BreakUnlessSaid(Time now, const control::RankBroken& word);
  // Each rank has said that it stopped after the step, or is in `done`: past its last one.
  bool EveryoneAtBoundary(const std::set<int>& done, int world_size) const;
  // The same, or nearly: one report proves that all will follow, so a report that was lost with a
  // connection delays the change by at most `patience`.
  bool AllAtBoundary(Time now, const std::set<int>& done, int world_size,
                     std::chrono::milliseconds patience) const;
  // The ranks that reported that they cannot continue, and the peer that each could not reach.
  std::map<int, int> BrokenPeers() const;
};

}  // namespace ringmaster::launcher
