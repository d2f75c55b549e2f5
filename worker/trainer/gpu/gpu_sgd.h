#pragma once

// The update of kernels/sgd_update.h on tensors of a GPU. Implemented by cuda_sgd.cc; builds
// without CUDA have no such tensors (no_gpu.cc).

#include <ATen/core/Tensor.h>

#include "worker/trainer/kernels/sgd_update.h"

namespace ringmaster::trainer {

// On the current stream, without waiting. Flat float tensors of one size, and `scale` of one
// element; null: 1. Throws what LibTorch throws.
void SgdUpdateOnGpu(at::Tensor& parameters, at::Tensor& velocity, const at::Tensor& gradients,
                    const at::Tensor* scale, const SgdRates& rates);

}  // namespace ringmaster::trainer
