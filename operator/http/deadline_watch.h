#pragma once

// Calls a function at a deadline unless it is disarmed before. cpprestsdk has no such total time
// limit: its own timeout restarts with every byte. One thread serves any number of deadlines. Used
// by CpprestHttpClient.

#include <chrono>
#include <functional>
#include <map>
#include <stop_token>
#include <thread>

#include "common/base/mutex.h"

namespace ringmaster::http {

// Thread-safe.
class DeadlineWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  DeadlineWatch();

  // Disarms when destroyed; waits for a call in progress. The DeadlineWatch outlives it.
  class Guard {
   public:
    Guard(DeadlineWatch& owner, Time deadline, std::function<void()> on_passed);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    DeadlineWatch& owner_;
    std::multimap<Time, std::function<void()>>::iterator armed_;
  };

 private:
  void Work(std::stop_token stop);

  Mutex mutex_;
  StoppableCondVar changed_;
  // Functions run under the lock, because they only cancel a request. Empty: already called.
  std::multimap<Time, std::function<void()>> armed_ RINGMASTER_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace ringmaster::http
