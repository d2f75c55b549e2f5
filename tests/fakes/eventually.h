#pragma once

// Waits, with an end, for what another thread does and tells nobody. Where there is something to
// wait on, wait on that.
//
//   ASSERT_TRUE(Eventually([&] { return reflector.Synced(); }));

#include <chrono>
#include <functional>
#include <thread>

namespace ringmaster {

// Whether the condition became true within the limit.
inline bool Eventually(const std::function<bool()>& condition,
                       std::chrono::seconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace ringmaster
