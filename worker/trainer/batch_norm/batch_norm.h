#pragma once

// A layer for batch normalisation in training, with tensors and autograd. Used by
// backbones/layers.h with the arithmetic of the tensor's device.

#include <memory>

#include <ATen/core/Tensor.h>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

// Parameters of a layer: float tensors with one value for each channel.
struct BatchNormLayer {
  at::Tensor weight, bias;
  // `share` of this batch's mean and unbiased variance is added to these. Undefined: not added.
  at::Tensor running_mean, running_variance;
  double share = 0;
  double epsilon = 0;
};

// `x` is [samples, channels] or [samples, channels, height, width], in any order of memory. Then
// applies a PReLU if `slope` is defined, or adds `shortcut`, of x's type and shape. REQUIRES: not
// both, and more than one value per channel. Throws exceptions of LibTorch and the arithmetic.
at::Tensor BatchNormalise(std::shared_ptr<const NormArithmetic> arithmetic, const at::Tensor& x,
                          const BatchNormLayer& layer, const at::Tensor& slope,
                          const at::Tensor& shortcut);

}  // namespace ringmaster::trainer
