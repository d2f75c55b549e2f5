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

// Pieces are made when none is free that is large enough, and kept as long as the process: giving
// memory back may wait for the device. Thread-safe.
class Staging {
 public:
  // `device` outlives the object.
  explicit Staging(DeviceApi& device) : device_(device) {}

  // At least `bytes`.
  Result<StagingPiece> Take(std::size_t bytes);
  // No operation uses it any longer.
  void Return(const StagingPiece& piece);

 private:
  DeviceApi& device_;
  Mutex mutex_;
  std::vector<StagingPiece> free_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
