#pragma once

// The calls of the CUDA runtime that the communicator makes on this process's device. Implemented
// by gpu/cuda_device.cc and by a fake in tests. Only MakeMemory() and the first call of
// Contribute() wait for the device. Any other wait would hang behind a collective with a lost peer
// until that collective is aborted.

#include <cstddef>
#include <cstdint>

#include "common/base/result.h"

namespace ringmaster::trainer {

using DeviceStream = void*;  // a cudaStream_t
using DeviceEvent = void*;   // a cudaEvent_t

// Thread-safe. Errors have the text of the CUDA runtime. After an error the device is unusable.
class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  // Makes the device current for the calling thread. Call it before any other call of that thread,
  // unless LibTorch has already done so.
  virtual Result<void> Use() = 0;

  // Returns the stream on which the calling thread computes.
  virtual DeviceStream ComputingStream() = 0;
  virtual Result<DeviceStream> MakeStream() = 0;
  virtual void DropStream(DeviceStream stream) = 0;

  virtual Result<DeviceEvent> MakeEvent() = 0;
  virtual void DropEvent(DeviceEvent event) = 0;
  // Makes `event` complete when all work that is now on `stream` has ended.
  virtual Result<void> Record(DeviceEvent event, DeviceStream stream) = 0;
  // Makes later work on `stream` start only after `event` is complete.
  virtual Result<void> Follow(DeviceStream stream, DeviceEvent event) = 0;
  virtual Result<bool> Done(DeviceEvent event) = 0;

  // Returns whether `memory` is on the device.
  virtual bool Holds(const void* memory) = 0;
  // Allocates device memory and page-locked host memory, which are never freed. MakeMemory() may
  // wait for the device if little memory is left, so the thread that aborts must not call it.
  virtual Result<void*> MakeMemory(std::size_t bytes) = 0;
  virtual Result<void*> MakePinned(std::size_t bytes) = 0;
  // Copies between device memory and page-locked host memory, in stream order.
  virtual Result<void> Copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) = 0;
  // In stream order, sets `*to` (device memory) to `part`, or to 0 if `*gave_up` (page-locked
  // memory) is not 0. The first call may wait for the device.
  virtual Result<void> Contribute(uint64_t* to, uint64_t part, const uint32_t* gave_up,
                                  DeviceStream stream) = 0;
};

}  // namespace ringmaster::trainer
