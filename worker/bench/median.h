#pragma once

#include <algorithm>
#include <vector>

namespace ringmaster::bench {

// REQUIRES: at least one value.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace ringmaster::bench
