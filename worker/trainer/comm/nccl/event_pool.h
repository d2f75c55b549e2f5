#pragma once

// A pool of reusable device events. Creating an event for every operation would cost more than
// recording it.

#include <vector>

#include "common/base/mutex.h"
#include "worker/trainer/comm/nccl/device_api.h"

namespace ringmaster::trainer {

// Thread-safe.
class EventPool {
 public:
  // `device` must outlive the object.
  explicit EventPool(DeviceApi& device) : device_(device) {}
  ~EventPool() { Clear(); }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  Result<DeviceEvent> Take();
  // Returns `event` to the pool and sets it to null. Does nothing if `event` is null.
  void Return(DeviceEvent& event);
  // Destroys all events in the pool.
  void Clear();

 private:
  DeviceApi& device_;
  Mutex mutex_;
  std::vector<DeviceEvent> free_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
