#pragma once

// Batch normalisation on a GPU. Implemented by cuda_norm.cc; builds without CUDA use
// no_gpu.cc.

#include <memory>

#include <ATen/core/Tensor.h>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

// Returns the arithmetic for the current stream of x's GPU; null unless `x` has 32-bit or 16-bit
// values and a multiple of eight channels.
std::shared_ptr<const NormArithmetic> GpuNormFor(const at::Tensor& x);

}  // namespace ringmaster::trainer
