#pragma once

// gpu_norm.h on any device that kernels work on: names nothing of CUDA, so that tests run it on the
// CPU.

#include "worker/trainer/gpu/gpu_norm.h"
#include "worker/trainer/gpu/kernel_head_device.h"

namespace ringmaster::trainer {

std::shared_ptr<const NormArithmetic> KernelNorm(KernelDevice device);

}  // namespace ringmaster::trainer
