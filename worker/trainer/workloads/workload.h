#pragma once

// The interface of a workload: a model, a loss and a data source. Implementations draw all random
// numbers from (seed, step, sample), so that worlds of any size compute the same sums in a step.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/result.h"
#include "worker/trainer/data/data_order.h"
#include "worker/trainer/elastic/sharded_state.h"
#include "worker/trainer/elastic/step_collectives.h"

namespace ringmaster::trainer {

struct Evaluation {
  double loss_sum = 0;
  int64_t correct = 0;
};

// Not thread-safe. Methods may throw LibTorch's exceptions; train/train_loop.cc catches these
// exceptions.
class Workload {
 public:
  virtual ~Workload() = default;

  // Leaf tensors of autograd, initialised from the seed. The parameters in the first averages()
  // floats (numeric/alignment.h) are running averages (SgdOptions::averages).
  virtual std::vector<at::Tensor> parameters() = 0;
  virtual int64_t averages() const { return 0; }
  // The sharded part of the state; null if there is none. Valid as long as the workload
  // exists.
  virtual ShardedState* sharded() { return nullptr; }
  // One line for each parameter: name, type and shape. Saved states of other models are rejected.
  virtual std::string model() const = 0;
  virtual const DataOrder& order() const = 0;
  virtual int64_t held_out_size() const = 0;
  // A hash of the data: equal data sets have equal fingerprints.
  virtual uint64_t fingerprint() const = 0;

  // Runs the model once on dummy input, so that everything is loaded before the first step.
  virtual void WarmUp() = 0;

  // Assembles the samples of a rank's share of `step`, or of the share's first micro-batch.
  // Forward() and Backward() keep the activations of one micro-batch at a time.
  virtual void Load(int64_t step, const MicroBatches& parts) = 0;
  // Returns the sum of the share's losses; 0 for an empty share. May already add the gradients of
  // all micro-batches except the last. Every rank must call it, also with an empty share, because
  // it may use collectives. Returns the errors of these collectives.
  virtual Result<double> Forward(StepCollectives& others) = 0;
  // Adds the loss's gradients to the parameters' gradients, except those that Forward() added.
  // Runs backward once for each micro-batch of the share. Returns the errors of the collectives.
  virtual Result<void> Backward(StepCollectives& others) = 0;
  // Returns the sum of the losses as a tensor of one element, which a device may still compute, so
  // that the host need not wait for it. Forward() then returns 0. Null: Forward() returns the sum.
  virtual const at::Tensor* device_loss() const { return nullptr; }

  virtual Evaluation Evaluate(Share share) = 0;
};

}  // namespace ringmaster::trainer
