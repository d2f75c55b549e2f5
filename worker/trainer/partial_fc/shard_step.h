#pragma once

// One step on one range of rows: the logits of the sampled classes, the embeddings' gradients, and
// the sparse update of the rows. The same code computes this rank's shard in training and a copy of
// another shard in a replay. It reads only rows, the step's inputs and the options.
//
//   step.Begin(options, inputs.step, labels, embeddings, rows.range());
//   step.ComputeLogits(rows, sums, target);    // sums and target: then reduced over the ranks
//   step.ComputeCoefficients(maximum, sum);    // of all ranks' classes
//   step.AddEmbeddingGradients(rows, out);     // training only
//   step.Update(rows, rates);
//
// Rows and spans, except for labels, are memory of the device that created this object
// (head_device.h). The object reuses its buffers, of sampled rows × batch floats, in later steps.
// Not thread-safe; errors are those of RowStorage.

#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/partial_fc/head_options.h"
#include "worker/trainer/partial_fc/rows.h"
#include "worker/trainer/partial_fc/softmax.h"
#include "worker/trainer/partial_fc/vectors.h"

namespace ringmaster::trainer::partial_fc {

class ShardStep {
 public:
  virtual ~ShardStep() = default;

  // `labels` (in host memory) and `embeddings` (unit vectors) are those of the global batch. They
  // must stay valid while the step is used.
  virtual void Begin(const HeadOptions& options, int64_t step, std::span<const int64_t> labels,
                     std::span<const float> embeddings, ClassRange range) = 0;

  // Returns the sampled classes of the range, in ascending order.
  virtual std::vector<int64_t> sampled() const = 0;

  // Adds all logits to `sums`. For samples whose class is in the range, writes the logit, with
  // margin, to `target` (by sample); does not change other elements. Skips `sums` or `target` if it
  // is empty.
  virtual void ComputeLogits(const Rows& rows, const SoftmaxSums& sums,
                             std::span<float> target) = 0;
  // Converts logits to derivatives of the loss with respect to the cosines.
  virtual void ComputeCoefficients(std::span<const float> maximum, std::span<const float> sum) = 0;
  // Adds this range's part of the unit embeddings' gradients to `gradients`, samples × dimension.
  virtual void AddEmbeddingGradients(const Rows& rows, std::span<float> gradients) = 0;
  // Updates the sampled rows, or all rows with dense_update. REQUIRES: the rows have not changed
  // since ComputeLogits().
  virtual void Update(Rows& rows, const DescentRates& rates) = 0;

  // Returns the checksum of the rows that Update() changes, which is a part of rows.Checksum().
  virtual uint64_t Checksum(const Rows& rows) const = 0;
};

// Returns the rates of a step's update.
DescentRates RatesOf(const HeadOptions& options, int64_t step);

}  // namespace ringmaster::trainer::partial_fc
