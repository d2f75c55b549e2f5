#pragma once

// Decides whether and when to restart a rank of an elastic job that ended by itself. Does no I/O;
// used by elastic_slots.h.

#include <chrono>
#include <optional>

#include "common/process/child_reaper.h"

namespace ringmaster::agent {

class RestartPolicy {
 public:
  // The delay before the next start, or nothing where another start would end the same way: the
  // user's error, a program that cannot be executed, a GPU that does not work, a rank that was
  // content before it had a world.
  // A death soon after the start is answered at once the first time, then after 1 s, 2 s, … 30 s.
  std::optional<std::chrono::milliseconds> OnEnd(const ProcessEnd& end,
                                                 std::chrono::milliseconds lived, bool had_world);

  // The delay before the next try where the machine could not start one now. Counts as a death soon
  // after the start, and is never answered at once.
  std::chrono::milliseconds OnCannotStart();

  // Later failures do not repeat earlier ones.
  void Forget() { quick_deaths_ = 0; }

 private:
  int quick_deaths_ = 0;  // in a row
};

}  // namespace ringmaster::agent
