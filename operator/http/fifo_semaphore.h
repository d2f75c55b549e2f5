#pragma once

// A semaphore with at most N holders, served in the order of their requests. It limits the requests
// in flight; a plain semaphore would let a busy thread overtake threads that wait. Used by
// CpprestHttpClient.

#include <chrono>
#include <list>
#include <optional>
#include <stop_token>

#include "common/base/mutex.h"
#include "common/base/result.h"

namespace ringmaster::http {

// Thread-safe.
class FifoSemaphore {
 public:
  explicit FifoSemaphore(int slots) : free_(slots) {}

  // Holds a slot until destroyed. The FifoSemaphore must outlive it.
  class Slot {
   public:
    explicit Slot(FifoSemaphore* owner) : owner_(owner) {}
    Slot(Slot&& other) noexcept : owner_(other.owner_) { other.owner_ = nullptr; }
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (owner_ != nullptr) owner_->Release();
    }

   private:
    FifoSemaphore* owner_;
  };

  // Blocks until a slot is free. Returns kTimeout at the deadline and kCancelled on `stop`.
  Result<Slot> Acquire(std::optional<std::chrono::steady_clock::time_point> deadline,
                       std::stop_token stop);

 private:
  struct Waiter {
    StoppableCondVar granted;
    bool has_slot = false;
  };

  void Release();

  Mutex mutex_;
  int free_ RINGMASTER_GUARDED_BY(mutex_);
  std::list<Waiter> waiting_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::http
