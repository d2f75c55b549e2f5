#pragma once

// Decides whether and when a rank of an elastic job is restarted after it ended by itself. Does no
// I/O; used by elastic_slots.h.

#include <chrono>
#include <optional>

#include "common/process/child_reaper.h"

namespace ringmaster::agent {

class RestartPolicy {
 public:
  // Returns the delay before the next start. Returns nothing if another start would end the same
  // way: after a user error, if the program cannot be executed, if the rank's GPU does not work, or
  // if the rank exited with code 0 before it had a world.
  // If a rank dies soon after its start, the first restart is immediate; later ones wait 1 to 30 s.
  std::optional<std::chrono::milliseconds> OnEnd(const ProcessEnd& end,
                                                 std::chrono::milliseconds lived, bool had_world);

  // Call if the machine could not start a process. Returns the delay, never zero, before the next
  // attempt. Counts the attempt as a death soon after the start.
  std::chrono::milliseconds OnCannotStart();

  // Resets the count of failures.
  void Forget() { quick_deaths_ = 0; }

 private:
  int quick_deaths_ = 0;  // consecutive deaths soon after the start
};

}  // namespace ringmaster::agent
