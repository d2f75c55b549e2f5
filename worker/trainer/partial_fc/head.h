#pragma once

// The head of a partial-fc model on one rank: embeddings in, loss and embedding gradients out. The
// centres are sharded over the ranks (centre_table.h); what travels in a step is the embeddings, a
// maximum, a sum and a target's logit for each sample, and the embeddings' gradients.
//
// After An et al., "Killing Two Birds with One Stone: Efficient and Robust Training of Face
// Recognition CNNs by Partial FC" (arXiv 2203.15565). Sums over samples, not means: the session
// divides by the global batch, and the centres' update does the same.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/data/data_order.h"
#include "worker/trainer/partial_fc/centre_table.h"
#include "worker/trainer/step_collectives.h"

namespace ringmaster::trainer::partial_fc {

// Thread-safety: one thread.
class Head {
 public:
  // `table` outlives the object.
  explicit Head(CentreTable& table) : table_(table) {}

  // `labels` are of the global batch of `step` (from 0), `embeddings` of this rank's `share` of it:
  // share.size() × dimension, of any length. Returns the sum of the share's losses. Errors are
  // those of `others`.
  Result<double> Forward(int64_t step, std::vector<int64_t> labels, Share share,
                         std::span<const float> embeddings, StepCollectives& others);

  // After Forward(): the gradient of the sum of all losses over this rank's embeddings.
  Result<void> Backward(std::span<float> gradients, StepCollectives& others);

 private:
  Result<void> GatherEmbeddings(Share share, std::span<const float> embeddings,
                                StepCollectives& others);
  Result<void> ReduceSums(StepCollectives& others);

  int64_t dimension() const { return table_.options().dimension; }
  std::size_t samples() const { return inputs_.labels.size(); }

  CentreTable& table_;
  Share share_;
  StepInputs inputs_;                 // of the step under way
  std::vector<float> inverse_norms_;  // by sample of the batch
  std::vector<float> maximum_, sum_;  // by sample: of all ranks' classes
  std::vector<float> target_;         // by sample: its own class's logit
  // What collectives work on.
  std::vector<float> mine_, all_, scalars_;
  std::vector<float> gradients_;  // over all unit embeddings: this rank's part
};

}  // namespace ringmaster::trainer::partial_fc
