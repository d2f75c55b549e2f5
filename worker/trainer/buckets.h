#pragma once

// Parameters and gradients of a model as flat, persistent memory, and the moment a part of the
// gradients is complete.
//
// All gradients lie in one tensor, in reverse order of the parameters (the order in which backward
// makes them), cut into buckets: the first is small so that communication starts early. Hooks in
// autograd count; when the last gradient of a bucket is there, and all buckets before it are out,
// the bucket is handed to the caller, who reduces it while backward goes on. A few scalars travel
// with the last bucket. Depends on LibTorch and nothing else of the trainer's.

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ringmaster::trainer {

struct BucketOptions {
  int64_t first_bytes = 64 << 10;  // a bucket is closed once it holds at least this
  int64_t bytes = 16 << 20;        // the same for all after the first
  int64_t scalars = 4;             // how many travel with the last bucket
};

// Thread-safety: one thread, on which backward runs too.
class Buckets {
 public:
  // Moves the storage of `parameters` (float, on the CPU, requiring gradients) into one flat tensor
  // and gives each a gradient inside another. The tensors stay usable; their `data` and `grad` must
  // not be replaced.
  Buckets(std::vector<at::Tensor> parameters, const BucketOptions& options);
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  int count() const;

  // The memory to reduce for bucket `index`; with the scalars at its end if it is the last.
  std::span<float> Bucket(int index);
  std::span<float> scalars();

  // All of them, in bucket order; gradients without the scalars.
  const at::Tensor& flat_parameters() const;
  const at::Tensor& flat_gradients() const;

  // Sets gradients and scalars to zero, and calls `on_ready` with 0, 1, … count() - 1 as backward
  // completes buckets.
  void Arm(std::function<void(int index)> on_ready);

  // Hands out the buckets that backward left out: parameters without a gradient, or no backward at
  // all.
  void Flush();

 private:
  struct State;
  class Hook;
  std::shared_ptr<State>
      state_;  // hooks in the parameters' graph may outlive this object and see it gone
  std::vector<std::shared_ptr<void>> accumulators_;  // of the parameters: the hooks hang on them
};

}  // namespace ringmaster::trainer
