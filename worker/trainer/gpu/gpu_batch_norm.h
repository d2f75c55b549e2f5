#pragma once

// Batch normalisation in training on a GPU, by kernels/batch_norm.h. Implemented by
// cuda_batch_norm.cc; builds without CUDA have no such tensors (no_gpu.cc).

#include <ATen/core/Tensor.h>

namespace ringmaster::trainer {

// Of a layer. Tensors of floats, one for each channel.
struct BatchNormLayer {
  at::Tensor weight, bias;
  // Get `share` of this batch's mean and unbiased variance added. Undefined: none.
  at::Tensor running_mean, running_variance;
  double share = 0;
  double epsilon = 0;
};

// Whether it can be done for `x`: on a GPU, [samples, channels] or [samples, channels, height,
// width], of 32 or 16 bits, and a multiple of eight channels.
bool CanBatchNormOnGpu(const at::Tensor& x);

// On the current stream, without waiting. Then a PReLU follows where `slope` is defined, or
// `shortcut`, of x's type and form, is added. Autograd knows the way back. REQUIRES:
// CanBatchNormOnGpu(x), more than one value of a channel, not both. Throws what LibTorch throws.
at::Tensor BatchNormOnGpu(const at::Tensor& x, const BatchNormLayer& layer, const at::Tensor& slope,
                          const at::Tensor& shortcut);

}  // namespace ringmaster::trainer
