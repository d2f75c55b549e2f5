#pragma once

// Stores the parameters and gradients of a model in flat, persistent memory, and reports when a
// part of the gradients is complete.
//
// All gradients are in one tensor, in reverse order of the parameters (the order of backward),
// each aligned to 64 floats (numeric/alignment.h), and divided into buckets. The first bucket is
// small so that communication starts early. Autograd hooks count gradients; when a bucket is
// complete and all buckets before it have been passed on, it is passed to the caller, who reduces
// it while backward continues. A few scalars are sent with the last bucket, and so are running
// averages, whose "gradients" are sent uncompressed. Depends on LibTorch, elements.h and
// alignment.h only.

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
  int64_t first_bytes = 64 << 10;  // a bucket is closed once it holds at least this
  int64_t bytes = 16 << 20;        // the same for all after the first
  int64_t scalars = 5;             // how many travel with the last bucket
  int64_t averages = 0;            // room of the first parameters that are not weights but averages

  // A bucket that is smaller than the first one's usual size is no larger as the first.
  static BucketOptions Of(int64_t bytes) {
    BucketOptions options;
    options.bytes = std::max<int64_t>(1, bytes);
    options.first_bytes = std::min(options.first_bytes, options.bytes);
    return options;
  }
};

// Memory on the parameters' device that outlives the buckets and what works on them; null: there is
// no better than LibTorch's.
using GradientMemory = std::function<void*(std::size_t bytes)>;

// Thread-safety: one thread, on which backward runs too.
class Buckets {
 public:
  // Moves the storage of `parameters` (float, on one device, requiring gradients) into one flat
  // tensor there and gives each a gradient inside another. The tensors stay usable; their `data`
  // and `grad` must not be replaced. `memory` is asked once, for all that is reduced.
  Buckets(std::vector<at::Tensor> parameters, const BucketOptions& options,
          const GradientMemory& memory = {});
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  int count() const;

  // The memory to reduce for bucket `index`; at the end of the last one are the averages'
  // gradients, then the scalars.
  Elements Bucket(int index);
  // The number of values at the end of bucket `index` that must not be compressed.
  std::size_t exact_count(int index) const;
  // The number of values in each bucket before those.
  std::vector<std::size_t> gradient_counts();

  // The scalars: set after Arm(), on the device in the order of its computing.
  void SetScalar(int64_t index, double value);
  void SetScalar(int64_t index, const at::Tensor& value);  // of one element

  // Once all buckets are reduced: the weights' gradients become means over `samples`, the same in
  // every call; the averages' are means already. One wait for the device.
  struct Means {
    std::vector<float> scalars{};  // as they were reduced
    bool finite = true;            // all gradients
  };
  Means ToMeans(int64_t samples);

  // All of them, in bucket order, with zeros between; gradients without the scalars.
  const at::Tensor& flat_parameters() const;
  const at::Tensor& flat_gradients() const;

  // Sets gradients and scalars to zero, and calls `on_ready` with 0, 1, … count() - 1 as backward
  // completes buckets.
  void Arm(std::function<void(int index)> on_ready);

  // After Arm(), before that backward runs: one more backward adds to the gradients, and no bucket
  // is complete before the last one.
  void ExpectAnotherBackward();

  // The first parameter whose gradient has an element that is not a finite number; -1: none has.
  int FirstNotFinite() const;

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

// ToMeans() where to look at a value is to wait for it, in one pass: multiplies the first `scaled`
// of `values` by factors[0] and the others by factors[1]; `not_finite`, of one value, becomes 1
// where one of them was not finite. All flat floats on one device.
void ScaleAndCheck(const at::Tensor& values, int64_t scaled, const at::Tensor& factors,
                   at::Tensor& not_finite);

}  // namespace ringmaster::trainer
