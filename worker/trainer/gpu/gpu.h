#pragma once

// The interface through which the trainer uses this rank's GPU. Implemented by cuda_gpu.cc and, in
// builds without CUDA, by no_gpu.cc, which does not find GPUs.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/nccl/abort_limit.h"
#include "worker/trainer/compression/row_codec.h"
#include "worker/trainer/gpu/gpu_choice.h"
#include "worker/trainer/gpu/gpu_fault.h"

namespace ringmaster::trainer {

// Lists the GPUs without starting anything on them.
GpuFacts FindGpus();

// Returns CUDA's error if the GPU that this process uses, or would use, is unusable; otherwise
// nothing. Never waits for the GPU.
std::optional<GpuFault> FindGpuFault();

class Gpu {
 public:
  virtual ~Gpu() = default;

  // Returns LibTorch's name of the GPU, such as "cuda:1".
  virtual std::string device() const = 0;

  // Returns a factory of NCCL communicators. Worlds of one rank also use NCCL, because the values
  // are in GPU memory. `abandoned_connects` must outlive the communicators.
  virtual CommunicatorFactory communicators(AbandonedConnects& abandoned_connects) = 0;

  // Allocates GPU memory for values that are often reduced in place; null: use other GPU memory.
  // The memory is freed when the process exits. Call it before any communicator is created.
  virtual void* ReducedInPlace(std::size_t bytes) = 0;

  // Succeeds if the GPU can still be used. Otherwise returns the error that CUDA now returns for
  // every call, with the text of GpuFaultText(). Never waits for the GPU.
  virtual Result<void> Works() = 0;

  // Returns the codec for gradients in GPU memory; null for kNone. Errors are those of OpenGpu().
  virtual Result<std::unique_ptr<RowCodec>> codec(Compression compression) = 0;
};

// Returns a function that checks the GPU before a session enters a world
// (SessionOptions::device_works). `gpu` must outlive the function; if null, there is no check.
inline std::function<Result<void>()> AskGpu(Gpu* gpu) {
  if (gpu == nullptr) return {};
  return [gpu] { return gpu->Works(); };
}

// Opens GPU `number`, which ChooseGpu() returned. kUnavailable, with CUDA's message: the GPU does
// not work. The process ends if the GPU does not release a communicator within `abort_limit`.
Result<std::unique_ptr<Gpu>> OpenGpu(int number,
                                     std::chrono::milliseconds abort_limit = kAbortLimit);

}  // namespace ringmaster::trainer
