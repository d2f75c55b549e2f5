#pragma once

// Batch normalisation on a GPU. Implemented by cuda_norm.cc; builds without CUDA use
// no_gpu.cc.

#include <memory>

#include <ATen/core/Tensor.h>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

// Uses the current stream of x's GPU. Null: not supported for `x`, which must be of 32 or
// 16 bits and have a multiple of eight channels.
std::shared_ptr<const NormArithmetic> GpuNormFor(const at::Tensor& x);

}  // namespace ringmaster::trainer
