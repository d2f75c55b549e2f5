#pragma once

// Computes batch normalisation in training as a LibTorch operation with autograd. Used by
// backbones/layers.h with the arithmetic of the tensor's device.

#include <memory>

#include <ATen/core/Tensor.h>

#include "worker/trainer/batch_norm/norm_arithmetic.h"

namespace ringmaster::trainer {

// Float tensors with one value per channel. `share`: the rank's fraction of the global batch.
struct BatchNormLayer {
  at::Tensor weight, bias;
  // If defined, this batch's mean and unbiased variance, times `share`, are added to them.
  at::Tensor running_mean, running_variance;
  double share = 0;
  double epsilon = 0;
};

// Normalises `x`, [samples, channels] or [samples, channels, height, width] in any memory format.
// Then applies a PReLU if `slope` is defined, or adds a defined `shortcut` of x's type and shape.
// REQUIRES: not both; several values per channel. Throws exceptions of LibTorch and `arithmetic`.
at::Tensor BatchNormalise(std::shared_ptr<const NormArithmetic> arithmetic, const at::Tensor& x,
                          const BatchNormLayer& layer, const at::Tensor& slope,
                          const at::Tensor& shortcut);

}  // namespace ringmaster::trainer
