#include "worker/trainer/partial_fc/head.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "worker/trainer/partial_fc/softmax.h"

namespace ringmaster::trainer::partial_fc {
namespace {

// Shares differ by at most one sample, but collectives move pieces of equal size: each rank has
// space for the largest share.
std::size_t PieceSamples(std::size_t samples, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  return (samples + ranks - 1) / ranks;
}

// Calls visit(sample, place, count) for each run of `count` samples that are adjacent both in the
// batch (from `sample` on) and in the equal pieces (from `place` on).
template <typename Visit>
void ForEachRun(std::size_t samples, int size, Visit visit) {
  const std::size_t piece = PieceSamples(samples, size);
  if (piece * static_cast<std::size_t>(size) == samples) return visit(0, 0, samples);
  for (int rank = 0; rank < size; ++rank) {
    const Share share = ShareOf(rank, size, static_cast<int64_t>(samples));
    visit(static_cast<std::size_t>(share.begin), static_cast<std::size_t>(rank) * piece,
          static_cast<std::size_t>(share.size()));
  }
}

}  // namespace

Result<double> Head::Forward(int64_t step, std::vector<int64_t> labels, Share share,
                             std::span<const float> embeddings, StepCollectives& others) {
  share_ = share;
  samples_ = labels.size();
  inputs_ = {};
  inputs_.step = step;
  inputs_.labels = std::move(labels);
  if (auto gathered = GatherEmbeddings(embeddings, others); !gathered.ok()) {
    return gathered.error();
  }
  table_.Confirmed();
  maximum_ = maximum_memory_.Of(device(), samples_);
  const std::span<float> scalars = scalars_memory_.Of(device(), 2 * samples_);
  sum_ = scalars.first(samples_);
  target_ = scalars.last(samples_);
  device().Fill(maximum_, kNoMaximum);
  device().Fill(scalars, 0);
  ShardStep& work = table_.step();
  work.Begin(table_.options(), step, inputs_.labels, units_, table_.rows().range());
  work.ComputeLogits(table_.rows(), {.maximum = maximum_, .sum = sum_}, target_);
  if (auto reduced = ReduceSums(others); !reduced.ok()) return reduced.error();
  inputs_.embeddings.resize(units_.size());
  device().Copy(units_, inputs_.embeddings);
  inputs_.maximum.resize(samples_);
  device().Copy(maximum_, inputs_.maximum);
  inputs_.sum.resize(samples_);
  device().Copy(sum_, inputs_.sum);
  const double loss = LossOfShare();
  table_.Prepared(std::move(inputs_));  // moving keeps the labels' memory, to which `work` refers
  return loss;
}

Result<void> Head::GatherEmbeddings(std::span<const float> embeddings, StepCollectives& others) {
  const auto width = static_cast<std::size_t>(dimension());
  const std::size_t piece = PieceSamples(samples_, others.size());
  const std::size_t own = static_cast<std::size_t>(share_.size()) * width;
  mine_ = mine_memory_.Of(device(), piece * width);
  device().CopyWithin(embeddings.first(own), mine_.first(own));
  device().Fill(mine_.subspan(own), 0);
  all_ = all_memory_.Of(device(), mine_.size() * static_cast<std::size_t>(others.size()));
  Result<void> gathered = others.AllGather(std::as_bytes(mine_), std::as_writable_bytes(all_));
  if (!gathered.ok()) return gathered;
  units_ = units_memory_.Of(device(), samples_ * width);
  inverse_norms_ = norms_memory_.Of(device(), samples_);
  ForEachRun(samples_, others.size(),
             [&](std::size_t sample, std::size_t place, std::size_t count) {
               device().ToUnits(all_.subspan(place * width, count * width), dimension(),
                                units_.subspan(sample * width, count * width),
                                inverse_norms_.subspan(sample, count));
             });
  return {};
}

// Reduces three scalars per sample in two steps: the maximum, then the others relative to it.
Result<void> Head::ReduceSums(StepCollectives& others) {
  const std::span<float> own_maximum = own_maximum_memory_.Of(device(), samples_);
  device().CopyWithin(maximum_, own_maximum);
  Result<void> reduced = others.AllReduce(maximum_, ReduceOp::kMax);
  if (!reduced.ok()) return reduced;
  device().Rescale(sum_, own_maximum, maximum_);
  return others.AllReduce(std::span(sum_.data(), 2 * samples_), ReduceOp::kSum);
}

double Head::LossOfShare() {
  std::vector<float> target(samples_);
  device().Copy(target_, target);
  double loss = 0;
  for (int64_t sample = share_.begin; sample < share_.end; ++sample) {
    const auto i = static_cast<std::size_t>(sample);
    loss += std::log(static_cast<double>(inputs_.sum[i])) + inputs_.maximum[i] - target[i];
  }
  return loss;
}

Result<void> Head::Backward(std::span<float> gradients, StepCollectives& others) {
  const auto width = static_cast<std::size_t>(dimension());
  ShardStep& work = table_.step();
  work.ComputeCoefficients(maximum_, sum_);
  const std::span<float> of_units = gradients_memory_.Of(device(), samples_ * width);
  device().Fill(of_units, 0);
  work.AddEmbeddingGradients(table_.rows(), of_units);
  device().Fill(all_, 0);
  ForEachRun(samples_, others.size(),
             [&](std::size_t sample, std::size_t place, std::size_t count) {
               device().CopyWithin(of_units.subspan(sample * width, count * width),
                                   all_.subspan(place * width, count * width));
             });
  Result<void> reduced = others.ReduceScatter(all_, mine_, ReduceOp::kSum);
  if (!reduced.ok()) return reduced;
  const auto begin = static_cast<std::size_t>(share_.begin);
  const auto own = static_cast<std::size_t>(share_.size());
  device().ThroughNormalisation(units_.subspan(begin * width, own * width),
                                inverse_norms_.subspan(begin, own), mine_.first(own * width),
                                dimension(), gradients);
  return table_.ExchangeCopies(others);
}

}  // namespace ringmaster::trainer::partial_fc
