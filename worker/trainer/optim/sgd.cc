#include "worker/trainer/optim/sgd.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "worker/trainer/gpu/gpu_sgd.h"

namespace ringmaster::trainer {
namespace {

std::vector<at::Tensor> StateOf(const at::Tensor& parameters, const at::Tensor& velocity,
                                const LossScale* scale) {
  std::vector<at::Tensor> state{parameters, velocity};
  if (scale != nullptr) state.push_back(scale->state());
  return state;
}

}  // namespace

double RateAt(const SgdOptions& options, int64_t step) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(options.warmup_steps);
  }
  const double done =
      static_cast<double>(step - options.warmup_steps) /
      static_cast<double>(std::max<int64_t>(1, options.total_steps - options.warmup_steps));
  switch (options.schedule) {
    case RateSchedule::kConstant:
      return options.learning_rate;
    case RateSchedule::kPolynomial:
      return options.learning_rate * (1 - done) * (1 - done);
    case RateSchedule::kCosine:
      break;
  }
  return options.learning_rate * (1 + std::cos(std::numbers::pi * done)) / 2;
}

Sgd::Sgd(at::Tensor parameters, at::Tensor gradients, const SgdOptions& options)
    : options_(options),
      parameters_(std::move(parameters)),
      gradients_(std::move(gradients)),
      velocity_(at::zeros_like(parameters_)),
      state_(StateOf(parameters_, velocity_, options_.loss_scale.get())),
      trained_(parameters_.numel() - options.averages) {}

void Sgd::Step(int64_t step) {
  LossScale* const scale = options_.loss_scale.get();
  at::Tensor velocity = velocity_.narrow(0, 0, trained_);
  at::Tensor parameters = parameters_.narrow(0, 0, trained_);
  const at::Tensor gradients = gradients_.narrow(0, 0, trained_);
  if (!parameters.is_cpu()) {
    SgdUpdateOnGpu(parameters, velocity, gradients, scale == nullptr ? nullptr : &scale->value(),
                   {.momentum = static_cast<float>(options_.momentum),
                    .rate = static_cast<float>(RateAt(options_, step)),
                    .weight_decay = static_cast<float>(options_.weight_decay)});
  } else {
    const at::Tensor unscaled = scale == nullptr ? gradients : gradients / scale->value();
    std::vector<at::Tensor> velocities;  // LibTorch wants none without momentum
    if (options_.momentum != 0) velocities.push_back(velocity);
    at::_fused_sgd_({parameters}, {unscaled}, velocities, options_.weight_decay, options_.momentum,
                    RateAt(options_, step), /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    /*is_first_step=*/false);
  }
  if (scale != nullptr) scale->Applied();
  if (options_.averages == 0) return;
  at::Tensor averages = parameters_.narrow(0, trained_, options_.averages);
  averages.lerp_(gradients_.narrow(0, trained_, options_.averages), options_.average_rate);
}

std::optional<double> Sgd::LowerLossScale() {
  return options_.loss_scale == nullptr ? std::nullopt : options_.loss_scale->Lower();
}

}  // namespace ringmaster::trainer
