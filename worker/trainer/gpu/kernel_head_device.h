#pragma once

// Computes the head of a partial-fc model with kernels on a GPU, in memory from LibTorch. This file
// does not depend on CUDA, so tests run it on the CPU with kernels compiled for the host.

#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer {

// The LibTorch device on which kernels run, and a function that returns the device's current stream
// (a cudaStream_t).
struct KernelDevice {
  at::Device device = at::kCPU;
  std::function<void*()> stream;
};

std::shared_ptr<partial_fc::HeadDevice> MakeKernelHeadDevice(KernelDevice device);

// Creates the device for a head on "cpu" or, for example, "cuda:1". Without CUDA, only "cpu" works.
std::shared_ptr<partial_fc::HeadDevice> MakeHeadDevice(const std::string& device);

}  // namespace ringmaster::trainer
