#include "worker/trainer/sgd.h"

#include <ATen/ATen.h>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <utility>

namespace ringmaster::trainer {

double RateAt(const SgdOptions& options, int64_t step) {
  if (options.schedule == RateSchedule::kConstant) return options.learning_rate;
  const double done = static_cast<double>(step) / static_cast<double>(options.total_steps);
  return options.learning_rate * (1 + std::cos(std::numbers::pi * done)) / 2;
}

Sgd::Sgd(at::Tensor parameters, at::Tensor gradients, const SgdOptions& options)
    : options_(options),
      parameters_(std::move(parameters)),
      gradients_(std::move(gradients)),
      velocity_(at::zeros_like(parameters_)) {}

TrainableState Sgd::state() const {
  const auto values = [](const at::Tensor& flat) {
    return std::span<float>(flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel()));
  };
  return {values(parameters_), values(velocity_)};
}

void Sgd::Step(int64_t step) {
  velocity_.mul_(options_.momentum).add_(gradients_);
  parameters_.add_(velocity_, -RateAt(options_, step));
}

}  // namespace ringmaster::trainer
