#pragma once

// Implements gpu_norm.h with kernels. It does not depend on CUDA, so tests can run it on the
// CPU.

#include "worker/trainer/gpu/gpu_norm.h"
#include "worker/trainer/gpu/kernel_head_device.h"

namespace ringmaster::trainer {

std::shared_ptr<const NormArithmetic> KernelNorm(KernelDevice device);

}  // namespace ringmaster::trainer
