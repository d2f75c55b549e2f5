#pragma once

// Stochastic gradient descent with momentum over flat parameters: v = momentum * v + g, p -=
// learning_rate * v.

#include <ATen/core/Tensor.h>
#include <cstdint>

#include "worker/trainer/checksum.h"

namespace ringmaster::trainer {

enum class RateSchedule { kConstant, kCosine };

struct SgdOptions {
  double learning_rate = 0.03;
  double momentum = 0.9;
  RateSchedule schedule = RateSchedule::kCosine;
  int64_t total_steps = 1;  // over which the cosine falls to zero
};

// The rate of `step` (from 0): a pure function, so that every rank and every world size agrees.
double RateAt(const SgdOptions& options, int64_t step);

class Sgd {
 public:
  // Shares the tensors' memory.
  Sgd(at::Tensor parameters, at::Tensor gradients, const SgdOptions& options);

  // The update of `step`, from 0.
  void Step(int64_t step);

  // All that Step() changes: parameters and velocity, as long as this object lives.
  TrainableState state() const;

 private:
  const SgdOptions options_;
  at::Tensor parameters_;
  at::Tensor gradients_;
  at::Tensor velocity_;
};

}  // namespace ringmaster::trainer
