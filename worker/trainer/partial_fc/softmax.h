#pragma once

// The softmax over classes that are spread over tiles and ranks, for all samples of a batch at
// once. A tile is a matrix of logits, with a row for each class, so that loops over the samples in
// a row vectorise. Ranks exchange the maximum and the sum of each sample.

#include <cstdint>
#include <span>

#include "worker/trainer/partial_fc/exponential.h"

namespace ringmaster::trainer::partial_fc {

// For each sample: the greatest logit so far, and the sum of e^(logit - maximum). Initially
// kNoMaximum and 0.
struct SoftmaxSums {
  std::span<float> maximum;
  std::span<float> sum;
};

// Adds one tile of logits, which is read once from memory.
void AddTile(std::span<const float> logits, const SoftmaxSums& sums);

// Rescales the sums of a part of the classes, so that sums of several parts can be added:
// multiplies them by e^(their maximum - maximum).
void Rescale(std::span<float> sum, std::span<const float> own_maximum,
             std::span<const float> maximum);

// Converts logits to probabilities times `scale`: e^(logit - maximum) / sum * scale.
void ToProbabilities(std::span<float> logits, std::span<const float> maximum,
                     std::span<const float> sum, float scale);

}  // namespace ringmaster::trainer::partial_fc
