#pragma once

// Measures recoveries: from the first loss to the first step that the next world commits. Does no
// I/O; owned by a job.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"

namespace ringmaster::launcher {

class RecoveryWatch {
 public:
  using Time = Clock::Time;

  struct Loss {
    std::string cause;
    std::string pod;
    std::string node;
    Time last_sign{};       // time of the last sign of life
    control::Epoch epoch;   // the epoch that ran until the loss
    int64_t last_step = 0;  // the last known committed step
    bool orderly = false;   // whether the member leaves at the end of a step
    // When the program started, if it has to restart. Unset: training continues without a restart.
    std::optional<Time> started{};  // Time{}: it started under a previous launcher
  };

  // Records that members were lost. Keeps the first loss until training continues, but a loss
  // replaces an orderly leave.
  void Lost(Time now, const Loss& loss);

  bool IsOpen() const { return open_.has_value(); }

  // Call when rank 0 committed a step in `epoch`, or when a program started in it.
  void Progressed(Time now, const control::Epoch& epoch, int64_t step);

  const std::optional<control::Recovery>& last() const { return last_; }

 private:
  std::optional<Loss> open_;
  Time declared_at_{};
  std::optional<control::Recovery> last_;
};

}  // namespace ringmaster::launcher
