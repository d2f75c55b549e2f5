#include "worker/trainer/partial_fc/softmax.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "worker/trainer/numeric/vectorised.h"

namespace ringmaster::trainer::partial_fc {
namespace {

// How many rows stay in the fastest cache between the search for the maximum and the summation.
constexpr std::size_t kStrip = 16;
// How many rows are summed separately. In one sum over all rows, rounding would drop small terms:
// over a million classes, the error would be 2e-3.
constexpr std::size_t kBlock = 256;

RINGMASTER_VECTORISED void AddStrip(const float* logits, std::size_t rows, std::size_t samples,
                                    float* maximum, float* sum, float* above) {
  for (std::size_t i = 0; i < samples; ++i) above[i] = maximum[i];
  for (std::size_t row = 0; row < rows; ++row) {
    const float* values = logits + row * samples;
    for (std::size_t i = 0; i < samples; ++i) {
      above[i] = values[i] > above[i] ? values[i] : above[i];
    }
  }
  for (std::size_t i = 0; i < samples; ++i) {
    sum[i] *= Exponential(maximum[i] - above[i]);
    maximum[i] = above[i];
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const float* values = logits + row * samples;
    for (std::size_t i = 0; i < samples; ++i) sum[i] += Exponential(values[i] - maximum[i]);
  }
}

RINGMASTER_VECTORISED void RowToProbabilities(float* values, std::size_t samples,
                                              const float* maximum, const float* factor) {
  for (std::size_t i = 0; i < samples; ++i) {
    values[i] = Exponential(values[i] - maximum[i]) * factor[i];
  }
}

}  // namespace

void AddTile(std::span<const float> logits, const SoftmaxSums& sums) {
  const std::size_t samples = sums.sum.size();
  const std::size_t rows = logits.size() / samples;
  std::vector<float> maximum(samples);
  std::vector<float> sum(samples);
  std::vector<float> above(samples);
  for (std::size_t begin = 0; begin < rows; begin += kBlock) {
    const std::size_t end = std::min(rows, begin + kBlock);
    std::ranges::copy(sums.maximum, maximum.begin());
    std::ranges::fill(sum, 0.0F);
    for (std::size_t row = begin; row < end; row += kStrip) {
      AddStrip(logits.data() + row * samples, std::min(kStrip, end - row), samples, maximum.data(),
               sum.data(), above.data());
    }
    Rescale(sums.sum, sums.maximum, maximum);
    std::ranges::transform(sums.sum, sum, sums.sum.begin(), std::plus<>());
    std::ranges::copy(maximum, sums.maximum.begin());
  }
}

void Rescale(std::span<float> sum, std::span<const float> own_maximum,
             std::span<const float> maximum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] *= Exponential(own_maximum[i] - maximum[i]);
}

void ToProbabilities(std::span<float> logits, std::span<const float> maximum,
                     std::span<const float> sum, float scale) {
  const std::size_t samples = sum.size();
  std::vector<float> factor(samples);
  for (std::size_t i = 0; i < samples; ++i) factor[i] = scale / sum[i];
  for (std::size_t at = 0; at < logits.size(); at += samples) {
    RowToProbabilities(logits.data() + at, samples, maximum.data(), factor.data());
  }
}

}  // namespace ringmaster::trainer::partial_fc
