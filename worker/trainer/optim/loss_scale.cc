#include "worker/trainer/optim/loss_scale.h"

#include <ATen/ATen.h>

namespace ringmaster::trainer {

LossScale::LossScale(at::Device device)
    : state_(at::zeros({2}, at::TensorOptions().dtype(at::kFloat).device(device))),
      scale_(state_.select(0, 0)),
      steps_(state_.select(0, 1)) {
  scale_.fill_(kFirst);
}

void LossScale::Applied() {
  steps_.add_(1);
  const at::Tensor grows = steps_.ge(kGrowEvery);
  scale_.mul_(at::where(grows, at::full_like(scale_, kGrowth), at::ones_like(scale_)));
  steps_.masked_fill_(grows, 0);
}

std::optional<double> LossScale::Lower() {
  steps_.zero_();
  if (scale_.item<float>() <= kLeast) return std::nullopt;
  scale_.div_(kGrowth);
  return scale_.item<float>();
}

}  // namespace ringmaster::trainer
