#include "worker/trainer/partial_fc/host_shard_step.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ranges>

#include <ATen/Parallel.h>

#include "worker/trainer/numeric/vectorised.h"
#include "worker/trainer/partial_fc/product.h"
#include "worker/trainer/partial_fc/row_checksum.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr std::size_t kTileRows = 256;  // 512 floats each: half a MiB, which fits in a core's cache
constexpr int64_t kRowsOfAThread = 32;

RINGMASTER_VECTORISED void ScaleCosines(float* values, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) values[i] = scale * ClampedCosine(values[i]);
}

}  // namespace

void HostShardStep::Begin(const HeadOptions& options, int64_t step, std::span<const int64_t> labels,
                          std::span<const float> embeddings, ClassRange range) {
  dimension_ = options.dimension;
  margin_ = options.margin;
  labels_ = labels;
  embeddings_ = embeddings;
  const auto size = static_cast<std::size_t>(dimension_);
  transposed_.resize(embeddings.size());
  for (std::size_t i = 0; i < samples(); ++i) {
    for (std::size_t k = 0; k < size; ++k)
      transposed_[k * samples() + i] = embeddings[i * size + k];
  }
  sampled_ = SampledClasses(options.sampling, step, labels, range);
  coasting_.clear();
  if (options.dense_update) {
    const std::ranges::iota_view all(range.begin, range.end);
    std::ranges::set_difference(all, sampled_, std::back_inserter(coasting_));
  }
  logits_.resize(std::max(logits_.size(), sampled_.size() * samples()));
  units_.resize(kTileRows * size);
  gradients_.resize(kTileRows * size);
  inverse_norms_.resize(kTileRows);
  FindTargets(range);
}

void HostShardStep::FindTargets(ClassRange range) {
  targets_.clear();
  for (std::size_t i = 0; i < samples(); ++i) {
    if (!range.contains(labels_[i])) continue;
    const auto found = std::ranges::lower_bound(sampled_, labels_[i]);
    targets_.push_back(
        {.position = static_cast<std::size_t>(found - sampled_.begin()), .sample = i});
  }
  std::ranges::stable_sort(targets_, {}, &Target::position);
}

template <typename Visit>
void HostShardStep::ForEachTile(Visit visit) {
  auto target = targets_.begin();
  for (std::size_t begin = 0; begin < sampled_.size(); begin += kTileRows) {
    const Tile tile{.begin = begin, .rows = std::min(kTileRows, sampled_.size() - begin)};
    const auto end = std::find_if(target, targets_.end(), [&](const Target& other) {
      return other.position >= tile.begin + tile.rows;
    });
    visit(tile, std::span(target, end));
    target = end;
  }
}

std::span<float> HostShardStep::LogitsOf(const Tile& tile) {
  return std::span(logits_).subspan(tile.begin * samples(), tile.rows * samples());
}

void HostShardStep::ToUnitRows(const Rows& rows, const Tile& tile) {
  at::parallel_for(0, static_cast<int64_t>(tile.rows), kRowsOfAThread,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const auto row = static_cast<std::size_t>(i);
                       inverse_norms_[row] = ToUnit(rows.centre(sampled_[tile.begin + row]),
                                                    dimension_, &units_[0] + i * dimension_);
                     }
                   });
}

void HostShardStep::ComputeLogits(const Rows& rows, const SoftmaxSums& sums,
                                  std::span<float> target) {
  const auto batch = static_cast<int64_t>(samples());
  ForEachTile([&](const Tile& tile, std::span<Target> targets) {
    ToUnitRows(rows, tile);
    const std::span<float> logits = LogitsOf(tile);
    Multiply({.rows = static_cast<int64_t>(tile.rows),
              .columns = batch,
              .inner = dimension_,
              .left = {.data = units_.data(), .row_step = dimension_},
              .right = transposed_.data(),
              .right_step = batch,
              .out = logits.data(),
              .out_step = batch});
    ScaleCosines(logits.data(), logits.size(), margin_.scale);
    for (Target& own : targets) {
      float& logit = logits[(own.position - tile.begin) * samples() + own.sample];
      const TargetLogit moved = WithMargin(margin_, logit / margin_.scale);
      logit = moved.logit;
      own.slope = moved.slope;
      if (!target.empty()) target[own.sample] = moved.logit;
    }
    if (!sums.sum.empty()) AddTile(logits, sums);
  });
}

void HostShardStep::ComputeCoefficients(std::span<const float> maximum,
                                        std::span<const float> sum) {
  ForEachTile([&](const Tile& tile, std::span<Target> targets) {
    const std::span<float> values = LogitsOf(tile);
    ToProbabilities(values, maximum, sum, margin_.scale);
    for (const Target& own : targets) {
      float& value = values[(own.position - tile.begin) * samples() + own.sample];
      value = (value / margin_.scale - 1.0F) * own.slope;
    }
  });
}

void HostShardStep::AddEmbeddingGradients(const Rows& rows, std::span<float> gradients) {
  ForEachTile([&](const Tile& tile, std::span<Target>) {
    ToUnitRows(rows, tile);
    Multiply({.rows = static_cast<int64_t>(samples()),
              .columns = dimension_,
              .inner = static_cast<int64_t>(tile.rows),
              .left = {.data = LogitsOf(tile).data(),
                       .row_step = 1,
                       .column_step = static_cast<int64_t>(samples())},
              .right = units_.data(),
              .right_step = dimension_,
              .out = gradients.data(),
              .out_step = dimension_,
              .add = true});
  });
}

void HostShardStep::Update(Rows& rows, const DescentRates& rates) {
  const float mean = 1.0F / static_cast<float>(samples());
  ForEachTile([&](const Tile& tile, std::span<Target>) {
    ToUnitRows(rows, tile);
    Multiply({.rows = static_cast<int64_t>(tile.rows),
              .columns = dimension_,
              .inner = static_cast<int64_t>(samples()),
              .left = {.data = LogitsOf(tile).data(), .row_step = static_cast<int64_t>(samples())},
              .right = embeddings_.data(),
              .right_step = dimension_,
              .out = gradients_.data(),
              .out_step = dimension_});
    at::parallel_for(
        0, static_cast<int64_t>(tile.rows), kRowsOfAThread, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const auto row = static_cast<std::size_t>(i);
            const int64_t label = sampled_[tile.begin + row];
            float* gradient = &gradients_[0] + i * dimension_;
            ThroughNormalisation(&units_[0] + i * dimension_, inverse_norms_[row], gradient,
                                 dimension_, gradient);
            Descend(gradient, mean, rates, dimension_, rows.centre(label), rows.momentum(label));
          }
        });
  });
  Coast(rows, rates);
}

void HostShardStep::Coast(Rows& rows, const DescentRates& rates) const {
  at::parallel_for(0, static_cast<int64_t>(coasting_.size()), kRowsOfAThread,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t row = coasting_[static_cast<std::size_t>(i)];
                       partial_fc::Coast(rates, dimension_, rows.centre(row), rows.momentum(row));
                     }
                   });
}

uint64_t HostShardStep::Checksum(const Rows& rows) const {
  uint64_t sum = 0;
  for (const std::vector<int64_t>* touched : {&sampled_, &coasting_}) {
    for (const int64_t row : *touched) sum += RowChecksum(row, rows.centre(row), rows.row_floats());
  }
  return sum;
}

}  // namespace ringmaster::trainer::partial_fc
