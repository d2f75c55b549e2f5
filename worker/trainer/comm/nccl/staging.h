#pragma once

// Staging memory for collectives on host memory: a page-locked buffer, which the device copies to
// and from asynchronously, and a device buffer.

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

// Creates a piece if no free one is large enough, and keeps all pieces until the process ends,
// because freeing memory may wait for the device. Thread-safe.
class Staging {
 public:
  // `device` must outlive the object.
  explicit Staging(DeviceApi& device) : device_(device) {}

  // Returns a piece of at least `bytes`.
  Result<StagingPiece> Take(std::size_t bytes);
  // Call it when the operation no longer uses the piece.
  void Return(const StagingPiece& piece);

 private:
  DeviceApi& device_;
  Mutex mutex_;
  std::vector<StagingPiece> free_ RINGMASTER_GUARDED_BY(mutex_);
};

}  // namespace ringmaster::trainer
