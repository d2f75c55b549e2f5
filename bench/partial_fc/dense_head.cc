#include "bench/partial_fc/dense_head.h"

#include <algorithm>
#include <cstddef>

#include "worker/trainer/partial_fc/product.h"
#include "worker/trainer/partial_fc/shard_step.h"
#include "worker/trainer/partial_fc/softmax.h"
#include "worker/trainer/partial_fc/vectors.h"

namespace ringmaster::partial_fc_bench {

using namespace trainer::partial_fc;

DenseHead::DenseHead(const HeadOptions& options, ClassRange range, int64_t samples)
    : options_(options),
      samples_(samples),
      rows_(Rows::Initial(range, options.dimension, options.sampling.seed)),
      units_(static_cast<std::size_t>(range.size() * options.dimension)),
      inverse_norms_(static_cast<std::size_t>(range.size())),
      logits_(static_cast<std::size_t>(range.size() * samples)),
      gradient_(units_.size()) {}

void DenseHead::Step(int64_t step, std::span<const int64_t> labels,
                     std::span<const float> embeddings, std::span<float> gradients) {
  const ClassRange range = rows_.range();
  const int64_t width = options_.dimension;
  std::vector<float> transposed(embeddings.size());
  for (int64_t i = 0; i < samples_; ++i) {
    for (int64_t k = 0; k < width; ++k) {
      transposed[static_cast<std::size_t>(k * samples_ + i)] =
          embeddings[static_cast<std::size_t>(i * width + k)];
    }
  }
  for (int64_t row = 0; row < range.size(); ++row) {
    inverse_norms_[static_cast<std::size_t>(row)] =
        ToUnit(rows_.centre(range.begin + row), width, units_.data() + row * width);
  }
  Multiply({.rows = range.size(),
            .columns = samples_,
            .inner = width,
            .left = {.data = units_.data(), .row_step = width},
            .right = transposed.data(),
            .right_step = samples_,
            .out = logits_.data(),
            .out_step = samples_});
  ComputeCoefficients(labels);
  Multiply({.rows = samples_,
            .columns = width,
            .inner = range.size(),
            .left = {.data = logits_.data(), .row_step = 1, .column_step = samples_},
            .right = units_.data(),
            .right_step = width,
            .out = gradients.data(),
            .out_step = width});
  Multiply({.rows = range.size(),
            .columns = width,
            .inner = samples_,
            .left = {.data = logits_.data(), .row_step = samples_},
            .right = embeddings.data(),
            .right_step = width,
            .out = gradient_.data(),
            .out_step = width});
  for (int64_t row = 0; row < range.size(); ++row) {
    float* gradient = gradient_.data() + row * width;
    ThroughNormalisation(units_.data() + row * width, inverse_norms_[static_cast<std::size_t>(row)],
                         gradient, width, gradient);
    Descend(gradient, 1.0F / static_cast<float>(samples_), RatesOf(options_, step), width,
            rows_.centre(range.begin + row), rows_.momentum(range.begin + row));
  }
}

// Replaces the cosines with the derivatives of the loss with respect to them.
void DenseHead::ComputeCoefficients(std::span<const int64_t> labels) {
  const float scale = options_.margin.scale;
  for (float& value : logits_) value = scale * std::clamp(value, -1.0F, 1.0F);
  const auto of_target = [&](std::size_t sample) -> float& {
    const int64_t row = labels[sample] - rows_.range().begin;
    return logits_[static_cast<std::size_t>(row * samples_) + sample];
  };
  std::vector<float> slopes(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!rows_.range().contains(labels[i])) continue;
    const TargetLogit moved = WithMargin(options_.margin, of_target(i) / scale);
    of_target(i) = moved.logit;
    slopes[i] = moved.slope;
  }
  std::vector<float> maximum(labels.size(), kNoMaximum);
  std::vector<float> sum(labels.size());
  AddTile(logits_, {.maximum = maximum, .sum = sum});
  ToProbabilities(logits_, maximum, sum, scale);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (rows_.range().contains(labels[i])) of_target(i) = (of_target(i) / scale - 1) * slopes[i];
  }
}

}  // namespace ringmaster::partial_fc_bench
