#pragma once

// Batch normalisation in training as a layer with tensors and autograd. Used by backbones/layers.h
// with the arithmetic of the tensor's device.

#include <memory>

#include <ATen/core/Tensor.h>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

// Parameters of a layer: float tensors with one value for each channel.
struct BatchNormLayer {
  at::Tensor weight, bias;
  // `share` of this batch's mean and unbiased variance is added to these. Undefined: none.
  at::Tensor running_mean, running_variance;
  double share = 0;
  double epsilon = 0;
};

// `x` is [samples, channels] or [samples, channels, height, width], in any order of memory. Then a
// PReLU follows where `slope` is defined, or `shortcut`, of x's type and form, is added. REQUIRES:
// more than one value of a channel, not both. Throws what LibTorch and the arithmetic throw.
at::Tensor BatchNormalise(std::shared_ptr<const NormArithmetic> arithmetic, const at::Tensor& x,
                          const BatchNormLayer& layer, const at::Tensor& slope,
                          const at::Tensor& shortcut);

}  // namespace ringmaster::trainer
