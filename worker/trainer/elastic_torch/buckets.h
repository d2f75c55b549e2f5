#pragma once

// Stores the parameters and gradients of a model in flat, persistent memory, and reports when a
// part of the gradients is complete.
//
// All gradients are in one tensor, in reverse order of the parameters (the order of backward),
// each aligned to 64 floats (numeric/alignment.h), and divided into buckets. The first bucket is
// small so that communication starts early. Autograd hooks count gradients. When a bucket is
// complete and all earlier buckets have been passed on, it is passed to the caller, who reduces
// it while backward continues. A few scalars are sent with the last bucket, as are running
// averages, whose "gradients" are sent uncompressed. Depends only on LibTorch, elements.h and
// alignment.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

struct BucketOptions {
  int64_t first_bytes = 64 << 10;  // a bucket is closed once it has at least this size
  int64_t bytes = 16 << 20;        // the same for all later buckets
  int64_t scalars = 5;             // number of scalars that are sent with the last bucket
  int64_t averages = 0;            // padded size of the running averages (the first parameters)

  // Buckets of at least `bytes`. The first bucket is not larger than the others.
  static BucketOptions Of(int64_t bytes) {
    BucketOptions options;
    options.bytes = std::max<int64_t>(1, bytes);
    options.first_bytes = std::min(options.first_bytes, options.bytes);
    return options;
  }
};

// Allocates memory on the parameters' device that outlives the buckets and all users of the memory.
// Returns null if memory from LibTorch's allocator is as good.
using GradientMemory = std::function<void*(std::size_t bytes)>;

// Thread-safety: one thread, which must also run backward.
class Buckets {
 public:
  // Moves `parameters` (float, on one device, requiring gradients) into one flat tensor there, and
  // their gradients into another one. The tensors stay usable; their `data` and `grad` must not be
  // replaced. `memory` is called once, for all values that are reduced.
  Buckets(std::vector<at::Tensor> parameters, const BucketOptions& options,
          const GradientMemory& memory = {});
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  int count() const;

  // The values of bucket `index` that must be reduced. The last bucket ends with the averages'
  // gradients, followed by the scalars.
  Elements Bucket(int index);
  // The number of values at the end of bucket `index` that must not be compressed.
  std::size_t exact_count(int index) const;
  // Returns for each bucket the number of values that may be compressed.
  std::vector<std::size_t> gradient_counts();

  // Sets a scalar; call it after Arm(). On a device, the change is queued on its current stream.
  void SetScalar(int64_t index, double value);
  void SetScalar(int64_t index, const at::Tensor& value);  // has one element

  // Call it once all buckets are reduced. Divides the weights' gradients by `samples`, which is the
  // same in every call; the averages' gradients are already means. Waits once for the device.
  struct Means {
    std::vector<float> scalars{};  // reduced values
    bool finite = true;            // whether all gradients are finite
  };
  Means ToMeans(int64_t samples);

  // All parameters, and all gradients without the scalars, in bucket order and padded with zeros.
  const at::Tensor& flat_parameters() const;
  const at::Tensor& flat_gradients() const;

  // Sets gradients and scalars to zero. Backward then calls `on_ready` with 0, 1, … count() - 1
  // as it completes the buckets.
  void Arm(std::function<void(int index)> on_ready);

  // Call it after Arm(), before backward: one more backward pass adds to the gradients, and buckets
  // are complete only in the last one.
  void ExpectAnotherBackward();

  // The index of the first parameter with a gradient that is not finite; -1: all are finite.
  int FirstNotFinite() const;

  // Passes the buckets that backward did not complete to `on_ready`. Backward may not have run, or
  // some parameters did not get a gradient.
  void Flush();

 private:
  struct State;
  class Hook;
  std::shared_ptr<State>
      state_;  // hooks in the autograd graph may outlive this object; they then do nothing
  std::vector<std::shared_ptr<void>> accumulators_;  // keeps the parameters' hooks alive
};

// Does the work of ToMeans() on a device in one pass, without waiting for values. Multiplies the
// first `scaled` of `values` by factors[0] and the others by factors[1]. Sets the only value of
// `not_finite` to 1 if any of them is not finite. All are flat float tensors on one device.
void ScaleAndCheck(const at::Tensor& values, int64_t scaled, const at::Tensor& factors,
                   at::Tensor& not_finite);

}  // namespace ringmaster::trainer
