#pragma once

// Limits how often a job's status is written only because its launcher reports something new: the
// first reports are written immediately, later ones every five seconds. If a launcher's report
// changes at every poll, the job's writes are only about twice as frequent as otherwise. Stored in
// the job's memory. The operator's own observations and the end of a job are not delayed.

#include <algorithm>
#include <chrono>

#include "common/base/clock.h"

namespace ringmaster::job {

class ReportBudget {
 public:
  static constexpr std::chrono::seconds kPeriod{5};
  static constexpr int kAtOnce = 30;

  // Returns the delay of the next write that only reports cause; zero: write immediately.
  std::chrono::milliseconds Wait(Clock::Time now) const {
    const auto wait = next_ - now - (kAtOnce - 1) * kPeriod;
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::ceil<std::chrono::milliseconds>(wait));
  }

  void Spend(Clock::Time now) { next_ = std::max(next_, now) + kPeriod; }

 private:
  Clock::Time next_{};  // when the whole budget is available again
};

}  // namespace ringmaster::job
