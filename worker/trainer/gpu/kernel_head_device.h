#pragma once

// The head of a partial-fc model on a GPU: LibTorch provides memory, kernels compute. It does not
// name CUDA, so that tests can run it on the CPU, with kernels that are compiled for the host.

#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer {

// The device of the kernels in LibTorch, and the stream (a cudaStream_t) that it currently
// uses.
struct KernelDevice {
  at::Device device = at::kCPU;
  std::function<void*()> stream;
};

std::shared_ptr<partial_fc::HeadDevice> MakeKernelHeadDevice(KernelDevice device);

// For a LibTorch device by name, "cpu" or "cuda:1". Builds without CUDA know the host's alone.
std::shared_ptr<partial_fc::HeadDevice> MakeHeadDevice(const std::string& device);

}  // namespace ringmaster::trainer
