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

// Thread-safety: one thread. Methods may throw what LibTorch throws; train/train_loop.cc catches
// it.
class Workload {
 public:
  virtual ~Workload() = default;

  // Leaves of autograd, initialised from the seed. Those that take the first averages() floats of
  // room (numeric/alignment.h) are running averages (SgdOptions::averages).
  virtual std::vector<at::Tensor> parameters() = 0;
  virtual int64_t averages() const { return 0; }
  // The sharded part of the state; null if there is none. Valid for the workload's
  // lifetime.
  virtual ShardedState* sharded() { return nullptr; }
  // A line for each parameter: name, type and shape. A state of one model fits no other.
  virtual std::string model() const = 0;
  virtual const DataOrder& order() const = 0;
  virtual int64_t held_out_size() const = 0;
  // For the data: equal sets have equal fingerprints.
  virtual uint64_t fingerprint() const = 0;

  // Runs the model once on made-up input, so that the first step finds everything loaded.
  virtual void WarmUp() = 0;

  // Assembles a rank's share of the global batch of `step`, or its first micro-batch. Forward() and
  // Backward() keep the activations of one micro-batch at a time.
  virtual void Load(int64_t step, const MicroBatches& parts) = 0;
  // The sum of the share's losses; 0 for an empty share. Of all micro-batches but the last it may
  // add the gradients already. Every rank calls it, and what it asks of the others, whatever its
  // share. An error is one of `others`.
  virtual Result<double> Forward(StepCollectives& others) = 0;
  // Adds the gradients of that sum to the parameters' gradients, but for what Forward() has added:
  // backward runs once for each micro-batch of the share. Errors likewise.
  virtual Result<void> Backward(StepCollectives& others) = 0;
  // For a workload on a device: Forward()'s sum, a tensor of one that is still being computed, so
  // that nothing waits for it; Forward() then returned 0. Null: what Forward() returned is the sum.
  virtual const at::Tensor* device_loss() const { return nullptr; }

  virtual Evaluation Evaluate(Share share) = 0;
};

}  // namespace ringmaster::trainer
