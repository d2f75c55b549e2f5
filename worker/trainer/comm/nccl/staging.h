#pragma once

// Staging memory for collectives on host memory: a page-locked buffer, which the device copies from
// and to asynchronously, and a device buffer.

#include <cstddef>
#include <vector>

#include "common/base/mutex.h"
#include "worker/trainer/comm/nccl/device_api.h"

namespace ringmaster::trainer {

struct StagingPiece {
  void* pinned = nullptr;
  void* device = nullptr;
  std::size_t bytes = 0;
};

// Creates pieces when no free one is large enough, and keeps them until the process ends: freeing
// memory may wait for the device. Thread-safe.
class Staging {
 public:
  // `device` must outlive the object.
  explicit Staging(DeviceApi& device) : device_(device) {}

  // Returns a piece of at least `bytes`.
  Result<StagingPiece> Take(std::size_t bytes);
  // Call when no operation uses the piece any more.
  void Return(const StagingPiece& piece);

 private:
  DeviceApi& device_;
  Mutex mutex_;
  std::vector<StagingPiece> free_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
