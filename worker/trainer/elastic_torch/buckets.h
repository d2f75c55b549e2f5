#pragma once

// Stores the parameters and gradients of a model in flat, persistent memory, and reports when a
// part of the gradients is complete.
//
// All gradients are in one tensor, in reverse order of the parameters (the order of backward),
// each aligned to 64 floats (numeric/alignment.h), and divided into buckets. The first bucket is
// small so that communication starts early. Autograd hooks count the gradients. When a bucket is
// complete and all earlier buckets have been passed on, the bucket is passed to the caller, which
// reduces it while backward continues. The last bucket also contains a few scalars and the
// "gradients" of running averages, which are not compressed. Depends only on LibTorch, elements.h
// and alignment.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/trainer/comm/elements.h"

namespace ringmaster::trainer {

struct BucketOptions {
  int64_t first_bytes = 64 << 10;  // the first bucket is closed once it has at least this size
  int64_t bytes = 16 << 20;        // every later bucket is closed once it has at least this size
  int64_t scalars = 5;             // number of scalars that are sent with the last bucket
  int64_t averages = 0;            // padded size of the running averages (the first parameters)

  // Returns options for buckets of at least `bytes`; the first bucket may be smaller.
  static BucketOptions Of(int64_t bytes) {
    BucketOptions options;
    options.bytes = std::max<int64_t>(1, bytes);
    options.first_bytes = std::min(options.first_bytes, options.bytes);
    return options;
  }
};

// Allocates memory on the parameters' device. The memory must outlive the buckets and all its
// users. Returns null if LibTorch's allocator is to be used.
using GradientMemory = std::function<void*(std::size_t bytes)>;

// Not thread-safe. Backward must run on the thread that uses this object.
class Buckets {
 public:
  // Moves `parameters` (float, on one device, requiring gradients) into one flat tensor on the same
  // device, and their gradients into another one. The tensors stay usable and keep their strides,
  // because a step with weights in another memory format than the images' takes longer; tensors
  // with gaps become contiguous. Their `data` must not be replaced; a `grad` that was reset or
  // replaced, as zero_grad() does, is put into its place in the flat memory. `memory` is called
  // once, to allocate all values that are reduced.
  Buckets(std::vector<at::Tensor> parameters, const BucketOptions& options,
          const GradientMemory& memory = {});
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  int count() const;

  // Returns the values of bucket `index`, which must be reduced. The last bucket ends with the
  // averages' gradients, followed by the scalars.
  Elements Bucket(int index);
  // Returns the number of values at the end of bucket `index` that must not be compressed.
  std::size_t exact_count(int index) const;
  // Returns for each bucket the number of values that may be compressed.
  std::vector<std::size_t> gradient_counts();

  // Sets a scalar; call it after Arm(). On a GPU, the change is queued on the current stream.
  void SetScalar(int64_t index, double value);
  void SetScalar(int64_t index, const at::Tensor& value);  // has one element

  // Call ToMeans() once all buckets are reduced. Divides the weights' gradients by `samples`, which
  // must be equal in every call; averages' gradients are already means. Waits for the device.
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

  // Call it after Arm() and before backward to announce one more backward pass. All passes add to
  // the gradients, and buckets become complete only in the last one.
  void ExpectAnotherBackward();

  // Returns the index of the first parameter whose gradient is not finite; -1: all are finite.
  int FirstNotFinite() const;

  // Passes to `on_ready` all buckets that backward did not complete, because it did not run or some
  // parameters did not get a gradient.
  void Flush();

  // Call it after backward. Returns what the program did to a parameter so that its gradient is
  // wrong: it ran backward more often than announced, or replaced its data. Empty: nothing.
  // The text counts the parameters from the first one after the averages.
  std::string Misuse() const;

 private:
  struct State;
  class Hook;
  std::shared_ptr<State>
      state_;  // hooks in the autograd graph may outlive this object; they then do nothing
  std::vector<std::shared_ptr<void>> accumulators_;  // keeps the parameters' hooks alive
};

// Returns the shape of a parameter and, unless it is contiguous, its strides in flat memory: a
// state with another format has its values in another order.
std::string FormatOf(const at::Tensor& parameter);

// Does the work of ToMeans() in one pass, but does not wait for the device. Multiplies
// the first `scaled` of `values` by factors[0] and the others by factors[1]. Sets the only value of
// `not_finite` to 1 if any value is not finite. All tensors are flat, float and on one device.
void ScaleAndCheck(const at::Tensor& values, int64_t scaled, const at::Tensor& factors,
                   at::Tensor& not_finite);

}  // namespace ringmaster::trainer
