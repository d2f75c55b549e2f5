#include "worker/trainer/partial_fc/head.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "worker/trainer/partial_fc/softmax.h"
#include "worker/trainer/partial_fc/vectors.h"

namespace ringmaster::trainer::partial_fc {
namespace {

// Shares differ by one sample, and collectives move equal pieces: each rank has room for the
// largest share.
std::size_t PieceSamples(std::size_t samples, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  return (samples + ranks - 1) / ranks;
}

// Calls visit(sample of the batch, its place among equal pieces).
template <typename Visit>
void ForEachPlace(std::size_t samples, int size, Visit visit) {
  const std::size_t piece = PieceSamples(samples, size);
  for (int rank = 0; rank < size; ++rank) {
    const Share share = ShareOf(rank, size, static_cast<int64_t>(samples));
    for (int64_t i = share.begin; i < share.end; ++i) {
      visit(static_cast<std::size_t>(i),
            static_cast<std::size_t>(rank) * piece + static_cast<std::size_t>(i - share.begin));
    }
  }
}

}  // namespace

Result<double> Head::Forward(int64_t step, std::vector<int64_t> labels, Share share,
                             std::span<const float> embeddings, StepCollectives& others) {
  share_ = share;
  inputs_ = {};
  inputs_.step = step;
  inputs_.labels = std::move(labels);
  if (auto gathered = GatherEmbeddings(share, embeddings, others); !gathered.ok()) {
    return gathered.error();
  }
  table_.Confirmed();
  maximum_.assign(samples(), kNoMaximum);
  sum_.assign(samples(), 0.0F);
  target_.assign(samples(), 0.0F);
  ShardStep& work = table_.step();
  work.Begin(table_.options(), step, inputs_.labels, inputs_.embeddings, table_.rows().range());
  work.ComputeLogits(table_.rows(), {.maximum = maximum_, .sum = sum_}, target_);
  if (auto reduced = ReduceSums(others); !reduced.ok()) return reduced.error();
  double loss = 0;
  for (int64_t sample = share.begin; sample < share.end; ++sample) {
    const auto i = static_cast<std::size_t>(sample);
    loss += std::log(static_cast<double>(sum_[i])) + maximum_[i] - target_[i];
  }
  inputs_.maximum = maximum_;
  inputs_.sum = sum_;
  table_.Prepared(std::move(inputs_));  // vectors keep their memory, which `work` refers to
  return loss;
}

Result<void> Head::GatherEmbeddings(Share share, std::span<const float> embeddings,
                                    StepCollectives& others) {
  const auto width = static_cast<std::size_t>(dimension());
  const std::size_t piece = PieceSamples(samples(), others.size());
  mine_.assign(piece * width, 0.0F);
  std::ranges::copy(embeddings.first(static_cast<std::size_t>(share.size()) * width),
                    mine_.begin());
  all_.resize(mine_.size() * static_cast<std::size_t>(others.size()));
  Result<void> gathered =
      others.AllGather(std::as_bytes(std::span(mine_)), std::as_writable_bytes(std::span(all_)));
  if (!gathered.ok()) return gathered;
  inputs_.embeddings.resize(samples() * width);
  inverse_norms_.resize(samples());
  ForEachPlace(samples(), others.size(), [&](std::size_t sample, std::size_t place) {
    inverse_norms_[sample] = ToUnit(all_.data() + place * width, dimension(),
                                    inputs_.embeddings.data() + sample * width);
  });
  return {};
}

// Two reductions for three scalars a sample: the maximum first, the others in terms of it.
Result<void> Head::ReduceSums(StepCollectives& others) {
  const std::vector<float> own_maximum = maximum_;
  Result<void> reduced = others.AllReduce(std::span(maximum_), ReduceOp::kMax);
  if (!reduced.ok()) return reduced;
  Rescale(sum_, own_maximum, maximum_);
  scalars_.assign(sum_.begin(), sum_.end());
  scalars_.insert(scalars_.end(), target_.begin(), target_.end());
  reduced = others.AllReduce(std::span(scalars_), ReduceOp::kSum);
  if (!reduced.ok()) return reduced;
  const auto middle = scalars_.begin() + static_cast<std::ptrdiff_t>(sum_.size());
  std::copy(scalars_.begin(), middle, sum_.begin());
  std::copy(middle, scalars_.end(), target_.begin());
  return {};
}

Result<void> Head::Backward(std::span<float> gradients, StepCollectives& others) {
  const auto width = static_cast<std::size_t>(dimension());
  ShardStep& work = table_.step();
  work.ComputeCoefficients(maximum_, sum_);
  const std::size_t batch = sum_.size();
  gradients_.assign(batch * width, 0.0F);
  work.AddEmbeddingGradients(table_.rows(), gradients_);
  std::ranges::fill(all_, 0.0F);
  ForEachPlace(batch, others.size(), [&](std::size_t sample, std::size_t place) {
    std::copy_n(gradients_.data() + sample * width, width, all_.data() + place * width);
  });
  Result<void> reduced = others.ReduceScatter(std::span(all_), std::span(mine_), ReduceOp::kSum);
  if (!reduced.ok()) return reduced;
  const std::span<const float> units = work.embeddings();
  for (int64_t i = 0; i < share_.size(); ++i) {
    const auto sample = static_cast<std::size_t>(share_.begin + i);
    ThroughNormalisation(units.data() + sample * width, inverse_norms_[sample],
                         mine_.data() + static_cast<std::size_t>(i) * width, dimension(),
                         gradients.data() + static_cast<std::size_t>(i) * width);
  }
  return table_.ExchangeCopies(others);
}

}  // namespace ringmaster::trainer::partial_fc
