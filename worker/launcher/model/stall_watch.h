#pragma once

// Finds the rank that blocks the others, from the positions that all ranks report (RankPosition).
// Does no I/O; owned by a job (job.h).
//
// A world is stalled if no rank's position or count of collectives changes for
//
//   max(10 x the median step time, F)      in the middle of training; F is 2 s by default
//   max(10 x the median step time, 5 F)    while ranks have not entered the world
//   30 F                                   while the usual time is unknown: before five steps have
//                                          been seen, while accuracy is measured, and for a rank
//                                          that has not applied a step in this world: NCCL starts
//                                          while it connects, and cuDNN makes its plans in the
//                                          first step. This does not apply to a rank that is
//                                          stopped by a signal
//
// In a stalled world, a rank is to blame if others wait for it. If some ranks do not wait for
// others, the one furthest behind is to blame; if all wait, the one at the earliest place is. If
// several ranks are furthest behind, all are blamed, provided that they are fewer than half of the
// world or were stopped by a signal. Otherwise a common cause may slow them, so only the youngest
// is blamed, after three times the limit. If all wait for gradients at the same place, one device
// may hang while its host waits like the others: the rank that completed fewer collectives than all
// others (CollectiveCounts) is to blame. If no rank is behind, no rank is blamed here, and
// FindCulprits (next_world.h) decides from the ranks' reports about unreachable peers.
//
// A world is not judged if any of its ranks has not reported its position recently.

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/membership.h"

namespace ringmaster::launcher {

class StallWatch {
 public:
  using Time = Clock::Time;
  using Millis = std::chrono::milliseconds;

  // `floor`: F above; 0 disables the watch. `fresh`: the maximum age of a report.
  StallWatch(Millis floor, Millis fresh) : floor_(floor), fresh_(fresh) {}

  void set_fresh(Millis fresh) { fresh_ = fresh; }
  // Begins to watch a new world of this many ranks. Step times of earlier worlds still count.
  void Begin(Time now, int ranks);
  // Call if this launcher was suspended: measures the time without progress from now on.
  void Restart(Time now) { moved_at_ = now; }
  // REQUIRES: 0 <= position.rank < ranks.
  void Report(Time now, const control::RankPosition& position);

  struct Judgement {
    std::vector<int> ranks;
    Time still_since{};
    std::string
        missing{};  // collective that only this rank did not reach; empty: its position is behind
  };
  std::optional<Judgement> Judge(Time now) const;

  // If all ranks have stopped at the same place while connecting, returns the rank that each of
  // them waits for, if reported. Otherwise returns an empty map.
  std::map<int, int> CannotConnect(Time now) const;

  // If the world is stalled, returns when it last made progress; blames no rank.
  std::optional<Time> StalledSince(Time now) const;
  // Returns the positions of the ranks that are furthest behind, and their collectives, as text.
  std::string Record() const;

  // Returns a rank's position as text, like "at step 41, in phase 'compute', waiting for rank 2".
  std::string PlaceOf(int rank) const;
  // Returns the median time of a step; nothing before five steps have been seen.
  std::optional<Millis> MedianStep() const;
  // The newest report of each rank; nullopt for a rank that has not reported.
  const std::vector<std::optional<control::RankPosition>>& positions() const { return positions_; }

 private:
  bool AllFresh(Time now) const;
  Millis Limit(const std::vector<int>& suspects) const;
  Millis EnteringLimit() const;
  std::vector<int> Hindmost(const std::vector<int>& ranks) const;
  std::optional<Judgement> LastInCollectives() const;
  std::string KindText(int64_t number) const;

  const Millis floor_;
  Millis fresh_;
  std::vector<std::optional<control::RankPosition>> positions_;  // by rank
  std::vector<Time> reported_at_;                                // by rank
  Time moved_at_{};                                              // when a rank last made progress
  std::deque<int64_t> step_micros_;                              // durations of the newest steps
};

}  // namespace ringmaster::launcher
