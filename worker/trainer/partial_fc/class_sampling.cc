#include "worker/trainer/partial_fc/class_sampling.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "worker/trainer/partial_fc/class_draws.h"

namespace ringmaster::trainer::partial_fc {

std::vector<int64_t> SampledClasses(const SamplingOptions& options, int64_t step,
                                    std::span<const int64_t> labels, ClassRange range) {
  std::vector<int64_t> drawn;
  if (options.rate >= 1) {
    drawn.resize(static_cast<std::size_t>(range.size()));
    std::iota(drawn.begin(), drawn.end(), range.begin);
    return drawn;
  }
  drawn.reserve(
      static_cast<std::size_t>(std::ceil(options.rate * static_cast<double>(range.size()) * 1.1)));
  const auto rate = static_cast<float>(options.rate);
  PhiloxBlock block{};
  for (int64_t row = range.begin; row < range.end; ++row) {
    if (row == range.begin || row % 4 == 0) {
      block = DrawsOfFour(options.seed, step, row / 4);
    }
    if (UnitFloat(block.words[row % 4]) < rate) drawn.push_back(row);
  }
  std::vector<int64_t> positives;
  std::ranges::copy_if(labels, std::back_inserter(positives),
                       [&](int64_t label) { return range.contains(label); });
  std::ranges::sort(positives);
  positives.erase(std::unique(positives.begin(), positives.end()), positives.end());
  std::vector<int64_t> sampled;
  sampled.reserve(drawn.size() + positives.size());
  std::ranges::set_union(drawn, positives, std::back_inserter(sampled));
  return sampled;
}

}  // namespace ringmaster::trainer::partial_fc
