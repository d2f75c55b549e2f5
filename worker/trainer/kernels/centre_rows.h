#pragma once

// Kernels for class centres and other rows of floats on a GPU (partial_fc/rows.h, vectors.h,
// class_sampling.h). They take GPU memory, queue their work on `stream` (a cudaStream_t) and return
// CUDA's error number, 0 for success. The result for a row depends only on that row.

#include <cstddef>
#include <cstdint>

#include "worker/trainer/partial_fc/vectors.h"

namespace ringmaster::trainer::partial_fc {

// Copies between GPU and host memory, in either direction.
int LaunchCopy(const float* from, float* to, std::size_t count, void* stream);
// Copies, and waits until the copy is complete.
int CopyAndWait(const float* from, float* to, std::size_t count, void* stream);
// Returns CUDA's error message.
const char* LaunchErrorText(int error);

int LaunchFill(float* values, float value, int64_t count, void* stream);

// Initialises `count` rows, beginning with the row of class `first`.
int LaunchInitialRows(uint64_t seed, int64_t first, int64_t dimension, float* rows, int64_t count,
                      void* stream);

// Sets drawn[i] to whether class `first` + i is drawn at random in `step`.
int LaunchDrawClasses(uint64_t seed, int64_t step, float rate, int64_t first, bool* drawn,
                      int64_t count, void* stream);

// Vectors of `size` floats. Vector i begins at data + (index ? index[i] : i) * step.
struct Vectors {
  const float* data = nullptr;
  const int64_t* index = nullptr;
  int64_t step = 0;
  int64_t size = 0;
};
int LaunchToUnits(const Vectors& vectors, float* units, float* inverse_norms, int64_t count,
                  void* stream);

// Runs the backward pass of normalisation. `gradients` may be equal to `unit_gradients`.
int LaunchThroughNormalisation(const float* units, const float* inverse_norms,
                               const float* unit_gradients, int64_t size, float* gradients,
                               int64_t count, void* stream);

// LaunchDescent() runs the backward pass of normalisation and updates rows index[i] of `rows`
// (centre, then momentum). Row i of the other arrays is the unit centre, inverse norm or gradient.
struct Descent {
  const int64_t* index = nullptr;
  const float* units = nullptr;
  const float* inverse_norms = nullptr;
  const float* unit_gradients = nullptr;
  int64_t dimension = 0;
  float gradient_scale = 1;
  DescentRates rates;
};
int LaunchDescent(const Descent& descent, float* rows, int64_t count, void* stream);

// Updates rows index[i] by momentum and weight decay, without a gradient.
int LaunchCoast(const int64_t* index, int64_t dimension, const DescentRates& rates, float* rows,
                int64_t count, void* stream);

// Adds the checksums of rows index[i], or of the first `count` rows, to *sum. Row r is that of
// class `first` + r.
int LaunchRowChecksums(int64_t first, int64_t row_floats, const float* rows, const int64_t* index,
                       uint64_t* sum, int64_t count, void* stream);

}  // namespace ringmaster::trainer::partial_fc
