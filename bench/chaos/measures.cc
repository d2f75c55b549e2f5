#include "bench/chaos/measures.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "worker/bench/harness/figure.h"

namespace ringmaster::chaos {

using std::chrono::duration;

double MedianStepMillis(const std::vector<Applied>& steps) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].step != steps[i - 1].step + 1) continue;
    gaps.push_back(duration<double, std::milli>(steps[i].seen - steps[i - 1].seen).count());
  }
  return bench::Median(std::move(gaps));
}

double RateOf(const std::vector<Applied>& steps, const std::vector<Window>& windows) {
  int64_t done = 0;
  double seconds = 0;
  for (const Window& window : windows) {
    const auto seen_before = [](const Applied& applied, Time time) { return applied.seen < time; };
    const auto first = std::lower_bound(steps.begin(), steps.end(), window.begin, seen_before);
    const auto end = std::lower_bound(first, steps.end(), window.end, seen_before);
    if (first != end) done += std::prev(end)->step - first->step;
    seconds += duration<double>(window.end - window.begin).count();
  }
  return seconds <= 0 ? 0 : static_cast<double>(done) / seconds;
}

}  // namespace ringmaster::chaos
