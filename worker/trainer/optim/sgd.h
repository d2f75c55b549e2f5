#pragma once

// Stochastic gradient descent with momentum over flat parameters: g += weight_decay * p, v =
// momentum * v + g, p -= learning_rate * v.

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "worker/trainer/elastic_torch/tensor_state.h"
#include "worker/trainer/optim/loss_scale.h"

namespace ringmaster::trainer {

// The learning rate over a run: constant, or falling to zero along half a cosine or a parabola.
enum class RateSchedule { kConstant, kCosine, kPolynomial };

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;
  RateSchedule schedule = RateSchedule::kCosine;
  int64_t total_steps = 1;   // number of steps after which the rate is zero
  int64_t warmup_steps = 0;  // number of steps at the start in which the rate rises linearly
  double weight_decay = 0;
  // The last `averages` values of the flat parameters are running averages. A step moves them by
  // the fraction `average_rate` towards the values in their gradients.
  int64_t averages = 0;
  double average_rate = 0.1;
  // If set, gradients are those of the loss multiplied by this scale. REQUIRES: averages is 0.
  std::shared_ptr<LossScale> loss_scale{};
};

// Returns the learning rate of `step` (from 0). A pure function, so all ranks use the same rate.
double RateAt(const SgdOptions& options, int64_t step);

class Sgd {
 public:
  // Uses the memory of the tensors, which must be flat and on one device.
  Sgd(at::Tensor parameters, at::Tensor gradients, const SgdOptions& options);

  // Applies the update of `step`, counted from 0.
  void Step(int64_t step);
  // Call it instead of Step() if the gradients are not finite. Returns the lowered loss scale;
  // nothing if the loss scale is not the cause.
  std::optional<double> LowerLossScale();

  // All state that Step() changes: parameters, velocity and loss scale. Valid as long as *this.
  const TrainableState& state() const { return state_.view(); }
  // Returns null if the state is in host memory.
  StateMirror* mirror() const { return state_.mirror(); }

 private:
  const SgdOptions options_;
  at::Tensor parameters_;
  at::Tensor gradients_;
  at::Tensor velocity_;
  const TensorState state_;
  const int64_t trained_;  // number of values before the averages
};

}  // namespace ringmaster::trainer
