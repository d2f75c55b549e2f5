#pragma once

// The update of kernels/sgd_update.h on GPU tensors. Implemented by cuda_sgd.cc; builds without
// CUDA use no_gpu.cc.

#include <ATen/core/Tensor.h>

#include "worker/trainer/kernels/sgd_update.h"

namespace ringmaster::trainer {

// Queues the update on the current stream, without waiting. The tensors are flat, float and of the
// same size; `scale` has one element, and null means 1. Throws LibTorch's exceptions.
void SgdUpdateOnGpu(at::Tensor& parameters, at::Tensor& velocity, const at::Tensor& gradients,
                    const at::Tensor* scale, const SgdRates& rates);

}  // namespace ringmaster::trainer
