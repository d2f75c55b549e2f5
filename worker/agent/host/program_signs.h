#pragma once

// Tracks when programs that do not report their steps were last active: when they printed output or
// changed the file that RINGMASTER_HEARTBEAT names. Used by agent.h in mode Restart.

#include <chrono>
#include <filesystem>
#include <map>
#include <utility>

#include "common/control/membership.h"

namespace ringmaster::agent {

class ProgramSigns {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `folder` contains the heartbeat files (config.h).
  explicit ProgramSigns(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void Printed(Time now, int slot) { slots_[slot].last = now; }
  // Returns the time since the program last printed, changed its file, or began in `epoch`.
  std::chrono::milliseconds Still(Time now, int slot, const control::Epoch& epoch);

 private:
  struct Slot {
    control::Epoch epoch{};
    Time last{};
    std::filesystem::file_time_type touched{};
  };

  const std::filesystem::path folder_;
  std::map<int, Slot> slots_;
};

}  // namespace ringmaster::agent
