#pragma once

// The head as an ordinary layer would be: every class takes part, and normalised centres, logits
// and the centres' gradient lie in tensors of their whole size, as autograd makes them; the update
// passes over every row. The same kernels and shards as the sparse head, so that only that differs.
// For measurements of one rank: what it would exchange with others is the same for both.

#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/partial_fc/head_options.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::partial_fc_bench {

class DenseHead {
 public:
  // The rows of `range`, for batches of `samples`.
  DenseHead(const trainer::partial_fc::HeadOptions& options, trainer::partial_fc::ClassRange range,
            int64_t samples);

  // Forward, backward and update. `embeddings` are unit vectors; their gradients come into
  // `gradients`.
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
