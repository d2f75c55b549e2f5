#pragma once

// Limits how many ranks may end by themselves before the job fails: `limit` within a sliding
// window. Ranks that are killed by signals do not count. Does no I/O.

#include <chrono>
#include <deque>
#include <set>

#include "common/base/clock.h"

namespace ringmaster::launcher {

// The user's settings for exit codes of the program. A code is in at most one of the two sets.
struct ExitCodeRules {
  std::set<int> fail;     // codes after which the job fails at once, because restarts do not help
  std::set<int> ignored;  // codes that are not counted, because the program did not cause them
};

class RestartLimit {
 public:
  RestartLimit(int limit, std::chrono::milliseconds window) : limit_(limit), window_(window) {}

  // Counts one exit; returns false if the limit is exceeded.
  bool Count(Clock::Time now) {
    while (!ends_.empty() && now - ends_.front() >= window_) ends_.pop_front();
    if (static_cast<int>(ends_.size()) >= limit_) return false;
    ends_.push_back(now);
    return true;
  }

  int counted() const { return static_cast<int>(ends_.size()); }

 private:
  int limit_;
  std::chrono::milliseconds window_;
  std::deque<Clock::Time> ends_;
};

}  // namespace ringmaster::launcher
