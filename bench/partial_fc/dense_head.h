#pragma once

// Computes the head as an ordinary layer: all classes are used; normalised centres, logits and the
// gradient of the centres are full-size tensors, as in autograd; and the update changes every row.
// Kernels and shards are the same as in the sparse head, so that only the sparsity differs. Only
// one rank is measured, because both heads exchange the same data with other ranks.

#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/partial_fc/head_options.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::partial_fc_bench {

class DenseHead {
 public:
  // Contains the rows of `range`. Each batch has `samples` samples.
  DenseHead(const trainer::partial_fc::HeadOptions& options, trainer::partial_fc::ClassRange range,
            int64_t samples);

  // Computes forward pass, backward pass and update. `embeddings` are unit vectors. Writes their
  // gradients to `gradients`.
  void Step(int64_t step, std::span<const int64_t> labels, std::span<const float> embeddings,
            std::span<float> gradients);

 private:
  void ComputeCoefficients(std::span<const int64_t> labels);

  const trainer::partial_fc::HeadOptions options_;
  const int64_t samples_;
  trainer::partial_fc::Rows rows_;
  std::vector<float> units_, inverse_norms_, logits_, gradient_;
};

}  // namespace ringmaster::partial_fc_bench
