#pragma once

// The elementwise arithmetic of vectors.h, for hosts and devices.

#include <cmath>

#include "worker/trainer/numeric/host_device.h"
#include "worker/trainer/partial_fc/vectors.h"

namespace ringmaster::trainer::partial_fc {

RINGMASTER_HOST_DEVICE inline float InverseNorm(float square) {
  constexpr float kShortest = 1e-12F;
  const float norm = std::sqrt(square);
  return 1.0F / (norm < kShortest ? kShortest : norm);
}

// Returns one element of ThroughNormalisation()'s result; `along` is the vectors' dot product.
RINGMASTER_HOST_DEVICE inline float Across(float unit_gradient, float along, float unit,
                                           float inverse_norm) {
  return (unit_gradient - along * unit) * inverse_norm;
}

RINGMASTER_HOST_DEVICE inline void DescendElement(float gradient, float scale,
                                                  const DescentRates& rates, float& value,
                                                  float& momentum) {
  const float slope = gradient * scale + rates.weight_decay * value;
  momentum = rates.momentum * momentum + slope;
  value -= rates.rate * momentum;
}

}  // namespace ringmaster::trainer::partial_fc
