#pragma once

// The head of a partial-fc model on a GPU. LibTorch provides the memory, and kernels compute. It
// does not depend on CUDA: tests run it on the CPU with kernels that are compiled for the host.

#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer {

// The LibTorch device on which kernels run, and a function that returns its current stream (a
// cudaStream_t).
struct KernelDevice {
  at::Device device = at::kCPU;
  std::function<void*()> stream;
};

std::shared_ptr<partial_fc::HeadDevice> MakeKernelHeadDevice(KernelDevice device);

// Creates the head for a LibTorch device: "cpu" or "cuda:1". Without CUDA, only "cpu" is supported.
std::shared_ptr<partial_fc::HeadDevice> MakeHeadDevice(const std::string& device);

}  // namespace ringmaster::trainer
