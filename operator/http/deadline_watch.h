#pragma once

// Calls a function at a deadline, unless its Guard is destroyed first. cpprestsdk has no time limit
// for a whole request: its timeout restarts with every byte. One thread serves all deadlines. Used
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

  // The destructor cancels the deadline or waits for the call. The DeadlineWatch must outlive it.
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
  // Functions run under the lock, because they only cancel a request. Each is cleared when it runs.
  std::multimap<Time, std::function<void()>> armed_ RINGMASTER_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace ringmaster::http
