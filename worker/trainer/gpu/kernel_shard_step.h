#pragma once

// Computes a step of the head for rows in GPU memory. It processes kChunkRows sampled rows at a
// time, which limits the memory for unit vectors and gradients.

#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/kernels/margin_softmax.h"
#include "worker/trainer/partial_fc/shard_step.h"

namespace ringmaster::trainer {

// Throws if `error`, the result of a kernel's launch, is not 0. `doing` describes the work.
void CheckLaunch(int error, const char* doing);

class KernelShardStep final : public partial_fc::ShardStep {
 public:
  static constexpr int64_t kChunkRows = 1 << 16;

  explicit KernelShardStep(KernelDevice device, int64_t chunk_rows = kChunkRows);

  void Begin(const partial_fc::HeadOptions& options, int64_t step, std::span<const int64_t> labels,
             std::span<const float> embeddings, partial_fc::ClassRange range) override;
  std::vector<int64_t> sampled() const override;
  void ComputeLogits(const partial_fc::Rows& rows, const partial_fc::SoftmaxSums& sums,
                     std::span<float> target) override;
  void ComputeCoefficients(std::span<const float> maximum, std::span<const float> sum) override;
  void AddEmbeddingGradients(const partial_fc::Rows& rows, std::span<float> gradients) override;
  void Update(partial_fc::Rows& rows, const partial_fc::DescentRates& rates) override;
  uint64_t Checksum(const partial_fc::Rows& rows) const override;

 private:
  struct Chunk {
    int64_t begin = 0;  // index in sampled_
    int64_t rows = 0;
  };

  void Draw(const partial_fc::HeadOptions& options, int64_t step,
            const std::vector<int64_t>& positives);
  template <typename Visit>
  void ForEachChunk(Visit visit);
  void ToUnitRows(const partial_fc::Rows& rows, const Chunk& chunk);
  float* LogitsOf(const Chunk& chunk);
  partial_fc::MarginTile Tile();

  const KernelDevice device_;
  const int64_t chunk_rows_;

  int64_t dimension_ = 0;
  int64_t samples_ = 0;
  partial_fc::Margin margin_;
  partial_fc::ClassRange range_;
  const float* embeddings_ = nullptr;
  at::Tensor transposed_;  // dimension × samples
  at::Tensor sampled_;     // indexes of the sampled rows in the range, ascending
  at::Tensor coasting_;    // indexes of the other rows, if they are updated too
  at::Tensor own_;         // by sample: index of its class in sampled_; -1: not in this shard
  at::Tensor slopes_;      // by sample
  at::Tensor logits_;      // memory for at least sampled × samples
  at::Tensor sums_;        // memory for LaunchLogits()

  // State of the current chunk.
  at::Tensor units_, inverse_norms_, gradients_;
  at::Tensor parts_;  // partial sums of the embeddings' gradient
};

}  // namespace ringmaster::trainer
