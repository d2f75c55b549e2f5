#pragma once

// One step on one range of rows: logits of the sampled classes, the gradient over the embeddings,
// and the sparse update of the rows. The same code computes a rank's own shard in training and a
// copy of another's in a replay. Reads nothing but rows, a step's inputs and the options.
//
//   step.Begin(options, inputs.step, labels, embeddings, rows.range());
//   step.ComputeLogits(rows, sums);            // sums: then reduced over the ranks
//   step.ComputeCoefficients(maximum, sum);    // of all ranks' classes
//   step.AddEmbeddingGradients(rows, out);     // training only
//   step.Update(rows, rates);
//
// Its memory, sampled rows × batch floats, is kept from step to step. Not thread-safe.

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
  // `labels` and `embeddings` (unit vectors) are of the global batch, and outlive the step's use.
  void Begin(const HeadOptions& options, int64_t step, std::span<const int64_t> labels,
             std::span<const float> embeddings, ClassRange range);

  // The classes of the range that take part, ascending.
  std::span<const int64_t> sampled() const { return sampled_; }
  std::span<const float> embeddings() const { return embeddings_; }

  // Takes all logits into `sums`; writes those of the samples whose class is in the range, margin
  // included, into `target` (by sample), and leaves the others' as they are.
  void ComputeLogits(const Rows& rows, const SoftmaxSums& sums, std::span<float> target);
  // Logits become the loss's slopes over the cosines.
  void ComputeCoefficients(std::span<const float> maximum, std::span<const float> sum);
  // This range's part of the gradient over the unit embeddings, added to samples × dimension.
  void AddEmbeddingGradients(const Rows& rows, std::span<float> gradients);
  // REQUIRES: rows as they were for the logits. Touches sampled rows only.
  void Update(Rows& rows, const DescentRates& rates);

 private:
  struct Target {
    std::size_t position = 0;  // in sampled_
    std::size_t sample = 0;
    float slope = 0;
  };
  struct Tile {
    std::size_t begin = 0;  // in sampled_
    std::size_t rows = 0;
  };

  std::size_t samples() const { return labels_.size(); }
  std::span<float> LogitsOf(const Tile& tile);
  void ToUnitRows(const Rows& rows, const Tile& tile);
  void FindTargets(ClassRange range);
  template <typename Visit>
  void ForEachTile(Visit visit);

  int64_t dimension_ = 0;
  Margin margin_;
  std::span<const int64_t> labels_;
  std::span<const float> embeddings_;
  std::vector<float> transposed_;  // dimension × samples
  std::vector<int64_t> sampled_;
  std::vector<Target> targets_;  // by position
  std::vector<float> logits_;    // at least sampled × samples

  // Of the tile at work.
  std::vector<float> units_;
  std::vector<float> inverse_norms_;
  std::vector<float> gradients_;
};

// The update of `rows` by a step that is known from its inputs alone.
void Replay(const HeadOptions& options, const StepInputs& inputs, ShardStep& step, Rows& rows);

// The rates of a step's update.
DescentRates RatesOf(const HeadOptions& options, int64_t step);

}  // namespace ringmaster::trainer::partial_fc
