#pragma once

// Waits, with a time limit, for a condition that another thread makes true without a notification.
// If there is a notification, wait for that instead.
//
//   ASSERT_TRUE(Eventually([&] { return reflector.Synced(); }));

#include <chrono>
#include <functional>
#include <thread>

namespace ringmaster {

// Returns whether the condition became true within the limit.
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
