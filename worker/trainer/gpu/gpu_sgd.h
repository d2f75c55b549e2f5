#pragma once

// The update of kernels/sgd_update.h on GPU tensors. Implemented by cuda_sgd.cc; builds without
// CUDA use no_gpu.cc.

#include <ATen/core/Tensor.h>

#include "worker/trainer/kernels/sgd_update.h"

namespace ringmaster::trainer {

// Queued on the current stream, without waiting. Flat float tensors of one size; `scale` has one
// element, and null means 1. Throws what LibTorch throws.
void SgdUpdateOnGpu(at::Tensor& parameters, at::Tensor& velocity, const at::Tensor& gradients,
                    const at::Tensor* scale, const SgdRates& rates);

}  // namespace ringmaster::trainer
