#include "bench/chaos/measures.h"

#include <algorithm>
#include <cstddef>

namespace ringmaster::chaos {

using std::chrono::duration;

double MedianStepMillis(const std::vector<Applied>& steps) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].step != steps[i - 1].step + 1) continue;
    gaps.push_back(duration<double, std::milli>(steps[i].seen - steps[i - 1].seen).count());
  }
  if (gaps.empty()) return 0;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return *middle;
}

double RateOf(const std::vector<Applied>& steps, Time begin, Time end) {
  int64_t first = -1;
  int64_t last = -1;
  for (const Applied& applied : steps) {
    if (applied.seen < begin || applied.seen > end) continue;
    if (first < 0) first = applied.step;
    last = applied.step;
  }
  const double seconds = duration<double>(end - begin).count();
  return first < 0 || seconds <= 0 ? 0 : static_cast<double>(last - first) / seconds;
}

}  // namespace ringmaster::chaos
