#include "worker/trainer/comm/nccl/event_pool.h"

#include <utility>

namespace ringmaster::trainer {

Result<DeviceEvent> EventPool::Take() {
  {
    const MutexLock lock(mutex_);
    if (!free_.empty()) {
      DeviceEvent const event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  return device_.MakeEvent();
}

void EventPool::Return(DeviceEvent& event) {
  if (event == nullptr) return;
  const MutexLock lock(mutex_);
  free_.push_back(std::exchange(event, nullptr));
}

void EventPool::Clear() {
  const MutexLock lock(mutex_);
  for (DeviceEvent event : free_) device_.DropEvent(event);
  free_.clear();
}

}  // namespace ringmaster::trainer
