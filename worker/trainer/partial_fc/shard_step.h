#pragma once

// One step on one range of rows: the logits of the sampled classes, the embeddings' gradients, and
// the sparse update of the rows. The same code computes a rank's own shard in training and a copy
// of another shard in a replay. It reads only rows, the step's inputs and the options.
//
//   step.Begin(options, inputs.step, labels, embeddings, rows.range());
//   step.ComputeLogits(rows, sums, target);    // sums and target: then reduced over the ranks
//   step.ComputeCoefficients(maximum, sum);    // of all ranks' classes
//   step.AddEmbeddingGradients(rows, out);     // training only
//   step.Update(rows, rates);
//
// Rows and spans, except for labels, are memory of the device that created this object
// (head_device.h). Its buffers, sampled rows × batch floats, are reused from step to step. Not
// thread-safe; errors are those of RowStorage.

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

  // `labels` (the host's memory) and `embeddings` (unit vectors) are of the global batch, and
  // outlive the step's use.
  virtual void Begin(const HeadOptions& options, int64_t step, std::span<const int64_t> labels,
                     std::span<const float> embeddings, ClassRange range) = 0;

  // The classes of the range that take part, ascending.
  virtual std::vector<int64_t> sampled() const = 0;

  // Takes all logits into `sums`; writes those of the samples whose class is in the range, margin
  // included, into `target` (by sample), and leaves the others' as they are. Skips either
  // of them if it is empty.
  virtual void ComputeLogits(const Rows& rows, const SoftmaxSums& sums,
                             std::span<float> target) = 0;
  // Logits become the loss's slopes over the cosines.
  virtual void ComputeCoefficients(std::span<const float> maximum, std::span<const float> sum) = 0;
  // This range's part of the gradient over the unit embeddings, added to samples × dimension.
  virtual void AddEmbeddingGradients(const Rows& rows, std::span<float> gradients) = 0;
  // REQUIRES: rows as they were for the logits. Touches sampled rows only, or with dense_update
  // all.
  virtual void Update(Rows& rows, const DescentRates& rates) = 0;

  // The part of rows.Checksum() that is of the rows that Update touches.
  virtual uint64_t Checksum(const Rows& rows) const = 0;
};

// The rates of a step's update.
DescentRates RatesOf(const HeadOptions& options, int64_t step);

}  // namespace ringmaster::trainer::partial_fc
