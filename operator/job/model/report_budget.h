#pragma once

// How often a job's status is written only because its launcher reports something else: at once the
// first times, then every five seconds. A launcher that reports something new at every question
// costs the API server about twice what an honest one does. Kept in a job's memory; what the
// operator sees for itself, and a job's end, do not wait for it.

#include <algorithm>
#include <chrono>

#include "common/base/clock.h"

namespace ringmaster::job {

class ReportBudget {
 public:
  static constexpr std::chrono::seconds kPeriod{5};
  static constexpr int kAtOnce = 30;

  // How long the next such write has to wait; zero: it may be made.
  std::chrono::milliseconds Wait(Clock::Time now) const {
    const auto wait = next_ - now - (kAtOnce - 1) * kPeriod;
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::ceil<std::chrono::milliseconds>(wait));
  }

  void Spend(Clock::Time now) { next_ = std::max(next_, now) + kPeriod; }

 private:
  Clock::Time next_{};  // when all of it is there again
};

}  // namespace ringmaster::job
