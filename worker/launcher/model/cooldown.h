#pragma once

// Decides how soon a slot whose process ended may rejoin. For each slot, n counts recent ends: the
// slot waits min(60 s, 1 s * 2^(n-2)) for n >= 2, and n halves every ten minutes. If two or more
// slots of a Pod wait, the whole Pod waits. A single crash thus causes no wait, a slot that crashes
// repeatedly affects its neighbours little, and no slot is excluded permanently. Does no I/O; owned
// by a job.

#include <chrono>
#include <map>
#include <string>

#include "common/base/clock.h"

namespace ringmaster::launcher {

class Cooldown {
 public:
  using Time = Clock::Time;
  static constexpr std::chrono::seconds kShortest{1};
  static constexpr std::chrono::seconds kLongest{60};
  static constexpr std::chrono::minutes kHalving{10};

  // Returns how long a slot waits after its process has ended `ends` times recently.
  static std::chrono::milliseconds Delay(int ends);

  // Records that the process in a slot ended. The slot then waits for at most `longest`.
  void Ended(Time now, const std::string& pod_uid, int slot,
             std::chrono::milliseconds longest = kLongest);

  // Returns when this slot may join a world: at once if the result is not after `now`.
  Time Until(Time now, const std::string& pod_uid, int slot) const;

  // Call when the Pod is permanently gone.
  void Forget(const std::string& pod_uid) { pods_.erase(pod_uid); }

 private:
  struct Slot {
    int ends = 0;
    Time halved_at{};  // when `ends` was last halved
    Time until{};
  };

  std::map<std::string, std::map<int, Slot>> pods_;
};

}  // namespace ringmaster::launcher
