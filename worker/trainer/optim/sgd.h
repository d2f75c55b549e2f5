#pragma once

// Stochastic gradient descent with momentum over flat parameters: g += weight_decay * p, v =
// momentum * v + g, p -= learning_rate * v.

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "worker/trainer/elastic_torch/tensor_state.h"
#include "worker/trainer/optim/loss_scale.h"

namespace ringmaster::trainer {

// For the learning rate over a run: constant, or falling to zero along half a cosine or a parabola.
enum class RateSchedule { kConstant, kCosine, kPolynomial };

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;
  RateSchedule schedule = RateSchedule::kCosine;
  int64_t total_steps = 1;   // over which the rate falls to zero
  int64_t warmup_steps = 0;  // in which it first rises to learning_rate, linearly
  double weight_decay = 0;
  // So many values at the end of the flat parameters are running averages: they move by
  // `average_rate` of the way to their "gradients".
  int64_t averages = 0;
  double average_rate = 0.1;
  // The gradients are those of the loss times this; null: of the loss. Not together with averages.
  std::shared_ptr<LossScale> loss_scale{};
};

// The rate of `step` (from 0): a pure function, so that every rank and every world size agrees.
double RateAt(const SgdOptions& options, int64_t step);

class Sgd {
 public:
  // Shares the memory of the tensors, which are flat and on one device.
  Sgd(at::Tensor parameters, at::Tensor gradients, const SgdOptions& options);

  // The update of `step`, from 0.
  void Step(int64_t step);
  // Instead of it, where the gradients are not finite numbers: the new loss scale. Nothing: no
  // scale is to blame.
  std::optional<double> LowerLossScale();

  // All that changes here: parameters, velocity and the loss scale, as long as this object lives.
  const TrainableState& state() const { return state_.view(); }
  // Null where they are in host memory.
  StateMirror* mirror() const { return state_.mirror(); }

 private:
  const SgdOptions options_;
  at::Tensor parameters_;
  at::Tensor gradients_;
  at::Tensor velocity_;
  const TensorState state_;
  const int64_t trained_;  // values before the averages
};

}  // namespace ringmaster::trainer
