#include "common/base/backoff.h"

#include <algorithm>
#include <cmath>

namespace ringmaster {

std::chrono::milliseconds BackoffDelay(const BackoffOptions& options, int failures, double random) {
  // The clamp keeps pow() finite; after 60 doublings the delay has reached its limit in any case.
  const int exponent = std::clamp(failures - 1, 0, 60);
  const double grown =
      static_cast<double>(options.initial.count()) * std::pow(options.factor, exponent);
  const double capped = std::min(grown, static_cast<double>(options.limit.count()));
  return std::chrono::milliseconds(std::llround(capped * (1.0 + options.jitter * random)));
}

}  // namespace ringmaster
