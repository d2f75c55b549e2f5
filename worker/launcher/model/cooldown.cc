#include "worker/launcher/model/cooldown.h"

#include <algorithm>

#include "common/base/backoff.h"

namespace ringmaster::launcher {

std::chrono::milliseconds Cooldown::Delay(int ends) {
  if (ends < 2) return std::chrono::milliseconds(0);
  return BackoffDelay({.initial = kShortest, .limit = kLongest}, ends - 1, 0);
}

void Cooldown::Ended(Time now, const std::string& pod_uid, int slot,
                     std::chrono::milliseconds longest) {
  Slot& state = pods_[pod_uid][slot];
  if (state.ends == 0) state.halved_at = now;
  for (; now - state.halved_at >= kHalving; state.halved_at += kHalving) state.ends /= 2;
  if (state.ends == 0) state.halved_at = now;
  ++state.ends;
  state.until = now + std::min(Delay(state.ends), longest);
}

Cooldown::Time Cooldown::Until(Time now, const std::string& pod_uid, int slot) const {
  const auto pod = pods_.find(pod_uid);
  if (pod == pods_.end()) return now;
  // If two or more slots wait, the whole Pod waits until the second longest wait is over.
  Time longest = now;
  Time second = now;
  for (const auto& [number, state] : pod->second) {
    if (state.until > longest) {
      second = longest;
      longest = state.until;
    } else {
      second = std::max(second, state.until);
    }
  }
  const auto own = pod->second.find(slot);
  return std::max(second, own == pod->second.end() ? now : own->second.until);
}

}  // namespace ringmaster::launcher
