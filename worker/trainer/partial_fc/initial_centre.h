#pragma once

// The initial centre of a class: normally distributed with mean 0 and standard deviation 0.01, as a
// pure function of (seed, class). Scalar code for hosts and devices.

#include <cmath>
#include <cstdint>

#include "worker/trainer/numeric/philox.h"

namespace ringmaster::trainer::partial_fc {

inline constexpr int64_t kCentreFour = 4;  // how many numbers one random block gives

// Writes centre[from] … centre[from + 3], up to `dimension`. REQUIRES: from % 4 == 0.
RINGMASTER_HOST_DEVICE inline void InitialFour(uint64_t seed, int64_t label, int64_t from,
                                               int64_t dimension, float* centre) {
  constexpr float kDeviation = 0.01F;
  constexpr float kTurn = 6.28318531F;
  const PhiloxBlock block = RandomBlock(seed, RandomPurpose::kCentres, static_cast<uint64_t>(label),
                                        static_cast<uint32_t>(from / kCentreFour), 0);
  // Box-Muller transform: converts two uniform numbers to two normal ones.
  for (int64_t pair = 0; pair < kCentreFour && from + pair < dimension; pair += 2) {
    const float radius =
        kDeviation * std::sqrt(-2.0F * std::log(1.0F - UnitFloat(block.words[pair])));
    const float angle = kTurn * UnitFloat(block.words[pair + 1]);
    centre[from + pair] = radius * std::cos(angle);
    if (from + pair + 1 < dimension) centre[from + pair + 1] = radius * std::sin(angle);
  }
}

}  // namespace ringmaster::trainer::partial_fc
