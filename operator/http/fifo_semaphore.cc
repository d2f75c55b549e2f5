#include "operator/http/fifo_semaphore.h"

namespace ringmaster::http {

Result<FifoSemaphore::Slot> FifoSemaphore::Acquire(
    std::optional<std::chrono::steady_clock::time_point> deadline, std::stop_token stop) {
  MutexLock lock(mutex_);
  if (free_ > 0) {
    --free_;
    return Slot(this);
  }
  const auto self = waiting_.emplace(waiting_.end());
  const auto has_slot = [&] { return self->has_slot; };
  if (deadline) {
    self->granted.WaitUntil(mutex_, stop, *deadline, has_slot);
  } else {
    self->granted.Wait(mutex_, stop, has_slot);
  }
  const bool granted = self->has_slot;
  waiting_.erase(self);
  if (granted) return Slot(this);
  if (stop.stop_requested())
    return Error{ErrorKind::kCancelled, "stopped while waiting for a free request slot"};
  return Error{ErrorKind::kTimeout, "no request slot became free in time"};
}

void FifoSemaphore::Release() {
  const MutexLock lock(mutex_);
  for (Waiter& waiter : waiting_) {
    if (waiter.has_slot) continue;  // its thread has not yet returned from Acquire()
    waiter.has_slot = true;
    waiter.granted.NotifyOne();
    return;
  }
  ++free_;
}

}  // namespace ringmaster::http
