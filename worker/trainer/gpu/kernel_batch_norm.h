#pragma once

// gpu_batch_norm.h on any device that kernels work on: names nothing of CUDA, so that tests run it
// on the CPU.

#include "worker/trainer/gpu/gpu_batch_norm.h"
#include "worker/trainer/gpu/kernel_head_device.h"

namespace ringmaster::trainer {

at::Tensor KernelBatchNorm(const KernelDevice& device, const at::Tensor& x,
                           const BatchNormLayer& layer, const at::Tensor& slope,
                           const at::Tensor& shortcut);

}  // namespace ringmaster::trainer
