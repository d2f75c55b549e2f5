#pragma once

// Decides whether and when to restart a rank of an elastic job that ended by itself. Does no I/O;
// used by elastic_slots.h.

#include <chrono>
#include <optional>

#include "common/process/child_reaper.h"

namespace ringmaster::agent {

class RestartPolicy {
 public:
  // The delay before the next start; nothing if another start would end the same way: after a user
  // error, if the program cannot be executed, if its GPU does not work, or if the rank exited with
  // code 0 before it had a world.
  // If a rank dies soon after its start, the first restart is immediate. Later ones wait 1 to 30 s.
  std::optional<std::chrono::milliseconds> OnEnd(const ProcessEnd& end,
                                                 std::chrono::milliseconds lived, bool had_world);

  // The delay before the next try if the machine could not start a process; never zero. Counts as a
  // death soon after the start.
  std::chrono::milliseconds OnCannotStart();

  // Resets the count of failures.
  void Forget() { quick_deaths_ = 0; }

 private:
  int quick_deaths_ = 0;  // deaths in a row soon after the start
};

}  // namespace ringmaster::agent
