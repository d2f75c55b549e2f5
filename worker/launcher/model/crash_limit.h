#pragma once

// Counts how often in a row ranks were killed or ended while loading, without training progress, so
// that a program that is always killed does not restart forever. Ranks that die together, because
// of one machine or fault, count once. A step beyond all earlier committed ones resets the count.
// Does no I/O; owned by a job.

#include <cstdint>
#include <string>

#include "common/base/clock.h"

namespace ringmaster::launcher {

class CrashLimit {
 public:
  using Time = Clock::Time;

  // The job fails after `limit` rounds of crashes; 0: no limit.
  explicit CrashLimit(int limit) : limit_(limit) {}

  // Counts a crash. `since` is when the process's world started, or the earliest time at which the
  // process can have started. If `since` is before the current round, the crash belongs to it.
  void Count(Time now, Time since, bool out_of_memory) {
    if (count_ == 0 || since >= round_began_) {
      ++count_;
      round_began_ = now;
    }
    if (out_of_memory) out_of_memory_ = count_;
  }

  // Call for each committed step, also for a step that is repeated.
  void Committed(int64_t step) {
    if (step <= furthest_) return;
    furthest_ = step;
    count_ = out_of_memory_ = 0;
  }

  // Resets the count if the newest round began before `before`.
  void Forget(Time before) {
    if (round_began_ < before) count_ = out_of_memory_ = 0;
  }

  int count() const { return count_; }
  int limit() const { return limit_; }
  bool Reached() const { return limit_ > 0 && count_ >= limit_; }
  // Returns whether memory ran out in the newest round or the round before it.
  bool OutOfMemory() const { return out_of_memory_ > 0 && out_of_memory_ + 1 >= count_; }

 private:
  int limit_;
  int count_ = 0;
  int out_of_memory_ = 0;  // the newest round in which memory ran out
  Time round_began_{};
  int64_t furthest_ = 0;  // highest committed step
};

}  // namespace ringmaster::launcher
