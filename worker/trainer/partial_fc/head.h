#pragma once

// The head of a partial-fc model on one rank: takes embeddings, and returns the loss and the
// embeddings' gradients. The centres are sharded over the ranks (centre_table.h). In a step, ranks
// exchange the embeddings, a maximum, a sum and a logit per sample, and the embeddings' gradients.
//
// See An et al., "Killing Two Birds with One Stone: Efficient and Robust Training of Face
// Recognition CNNs by Partial FC" (arXiv 2203.15565). Results are sums over samples, not means: the
// session divides by the global batch, and so does the update of the centres.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/elastic/step_collectives.h"
#include "worker/trainer/numeric/share.h"
#include "worker/trainer/partial_fc/centre_table.h"

namespace ringmaster::trainer::partial_fc {

// Not thread-safe.
class Head {
 public:
  // `table` must outlive the object.
  explicit Head(CentreTable& table) : table_(table) {}

  // `labels` are those of the global batch of `step` (from 0). `embeddings` has share.size() ×
  // dimension values for this rank's `share`, on the table's device; the vectors may have any norm.
  // Returns the sum of the share's losses. Errors are those of `others`.
  Result<double> Forward(int64_t step, std::vector<int64_t> labels, Share share,
                         std::span<const float> embeddings, StepCollectives& others);

  // Computes the gradient of the sum of all losses for these embeddings. Call it after Forward().
  Result<void> Backward(std::span<float> gradients, StepCollectives& others);

 private:
  Result<void> GatherEmbeddings(std::span<const float> embeddings, StepCollectives& others);
  Result<void> ReduceSums(StepCollectives& others);
  double LossOfShare();

  HeadDevice& device() { return table_.device(); }
  int64_t dimension() const { return table_.options().dimension; }

  CentreTable& table_;

  // State of the current step.
  Share share_;
  std::size_t samples_ = 0;  // number of samples of the global batch
  StepInputs inputs_;
  // Device memory, by sample of the batch; mine_ and all_ consist of equal pieces for collectives.
  std::span<float> units_, inverse_norms_, maximum_;
  std::span<float> sum_, target_;  // adjacent
  std::span<float> mine_, all_;

  PlacedFloats units_memory_, norms_memory_, maximum_memory_, own_maximum_memory_, scalars_memory_,
      gradients_memory_, mine_memory_, all_memory_;
};

}  // namespace ringmaster::trainer::partial_fc
