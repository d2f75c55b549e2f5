#pragma once

// Kernels that compute the softmax of a margin head (partial_fc/margin.h, softmax.h) from cosines,
// with a row for each sampled class and a column for each sample. They take GPU memory, queue work
// on `stream` (a cudaStream_t) and return CUDA's error number, 0 for success.

#include <cstdint>

#include "worker/trainer/partial_fc/margin.h"

namespace ringmaster::trainer::partial_fc {

struct MarginTile {
  float* values = nullptr;       // rows × samples
  const int64_t* own = nullptr;  // by sample: the row of its class; -1: not in this tile
  float* slopes = nullptr;       // by sample; set only if its class is in this tile
  int64_t rows = 0;
  int64_t samples = 0;
  Margin margin;
};

// Returns the number of floats that LaunchLogits() needs for its sums.
int64_t LogitSumFloats(int64_t rows, int64_t samples);

// Converts cosines to logits in one pass, with a margin for each sample's class. Stores the logit
// of that class in `target` and its slope in `tile.slopes`. Adds all logits of a sample to
// `maximum` and `sum`, unless `memory` is null; `target` may then be null too.
int LaunchLogits(const MarginTile& tile, float* target, float* maximum, float* sum, float* memory,
                 void* stream);

// Converts logits to the loss's derivatives by the cosines. `maximum` and `sum` cover all ranks.
int LaunchCoefficients(const MarginTile& tile, const float* maximum, const float* sum,
                       void* stream);

// Computes sum[i] *= e^(own_maximum[i] - maximum[i]).
int LaunchRescale(float* sum, const float* own_maximum, const float* maximum, int64_t count,
                  void* stream);

}  // namespace ringmaster::trainer::partial_fc
