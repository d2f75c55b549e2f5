#pragma once

// A step on host memory. It processes tiles of rows that fit into a core's cache, on LibTorch's
// threads.

#include <vector>

#include "worker/trainer/partial_fc/shard_step.h"

namespace ringmaster::trainer::partial_fc {

class HostShardStep final : public ShardStep {
 public:
  void Begin(const HeadOptions& options, int64_t step, std::span<const int64_t> labels,
             std::span<const float> embeddings, ClassRange range) override;
  std::vector<int64_t> sampled() const override { return sampled_; }
  void ComputeLogits(const Rows& rows, const SoftmaxSums& sums, std::span<float> target) override;
  void ComputeCoefficients(std::span<const float> maximum, std::span<const float> sum) override;
  void AddEmbeddingGradients(const Rows& rows, std::span<float> gradients) override;
  void Update(Rows& rows, const DescentRates& rates) override;
  uint64_t Checksum(const Rows& rows) const override;

 private:
  struct Target {
    std::size_t position = 0;  // index in sampled_
    std::size_t sample = 0;
    float slope = 0;
  };
  struct Tile {
    std::size_t begin = 0;  // index in sampled_
    std::size_t rows = 0;
  };

  std::size_t samples() const { return labels_.size(); }
  std::span<float> LogitsOf(const Tile& tile);
  void ToUnitRows(const Rows& rows, const Tile& tile);
  void Coast(Rows& rows, const DescentRates& rates) const;
  void FindTargets(ClassRange range);
  template <typename Visit>
  void ForEachTile(Visit visit);

  int64_t dimension_ = 0;
  Margin margin_;
  std::span<const int64_t> labels_;
  std::span<const float> embeddings_;
  std::vector<float> transposed_;  // dimension × samples
  std::vector<int64_t> sampled_;
  std::vector<int64_t> coasting_;  // rows that are not sampled, but updated
  std::vector<Target> targets_;    // by position
  std::vector<float> logits_;      // memory for at least sampled × samples

  // State of the current tile.
  std::vector<float> units_;
  std::vector<float> inverse_norms_;
  std::vector<float> gradients_;
};

}  // namespace ringmaster::trainer::partial_fc
