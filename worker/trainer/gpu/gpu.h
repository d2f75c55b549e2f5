#pragma once

// This rank's GPU as seen by the rest of the trainer. Implemented by cuda_gpu.cc, and in builds
// without CUDA by no_gpu.cc, which finds no GPUs.

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

// Looks, and starts nothing on any GPU.
GpuFacts FindGpus();

// CUDA's error if this process's GPU, or one that it could use, is unusable; empty if it is usable.
// Never waits for the GPU.
std::optional<GpuFault> FindGpuFault();

class Gpu {
 public:
  virtual ~Gpu() = default;

  // As LibTorch names it: "cuda:1".
  virtual std::string device() const = 0;

  // Communicators over NCCL, worlds of one included: they work on the GPU's memory.
  // `abandoned_connects` outlives them.
  virtual CommunicatorFactory communicators(AbandonedConnects& abandoned_connects) = 0;

  // Memory of the GPU for what is reduced in place again and again, as long as the process. Null:
  // any other memory of the GPU will do. Before the first communicator is made.
  virtual void* ReducedInPlace(std::size_t bytes) = 0;

  // Whether it can still be used; never waits for it. An error is one that CUDA keeps, whose text
  // is GpuFaultText()'s.
  virtual Result<void> Works() = 0;

  // Gradients in the GPU's memory as narrow codes; null for kNone. Errors as of OpenGpu().
  virtual Result<std::unique_ptr<RowCodec>> codec(Compression compression) = 0;
};

// The check before a session enters a world (SessionOptions::device_works). `gpu` outlives it;
// null: no check.
inline std::function<Result<void>()> AskGpu(Gpu* gpu) {
  if (gpu == nullptr) return {};
  return [gpu] { return gpu->Works(); };
}

// REQUIRES: ChooseGpu() gave `number`. kUnavailable: the GPU does not work, in CUDA's words.
// A GPU that does not let go of a communicator within `abort_limit` ends the process.
Result<std::unique_ptr<Gpu>> OpenGpu(int number,
                                     std::chrono::milliseconds abort_limit = kAbortLimit);

}  // namespace ringmaster::trainer
