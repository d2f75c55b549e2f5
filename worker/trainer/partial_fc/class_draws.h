#pragma once

// Draws the classes of a step, with one random block for four classes, on hosts and GPUs.

#include <cstdint>

#include "worker/trainer/numeric/philox.h"

namespace ringmaster::trainer::partial_fc {

// Returns the draws of the four classes from 4 × `four` on, one word for each: a class is drawn if
// its word, as a UnitFloat(), is below the rate.
RINGMASTER_HOST_DEVICE constexpr PhiloxBlock DrawsOfFour(uint64_t seed, int64_t step,
                                                         int64_t four) {
  return RandomBlock(seed, RandomPurpose::kClassSampling, static_cast<uint64_t>(step),
                     static_cast<uint32_t>(four), static_cast<uint32_t>(four >> 32));
}

}  // namespace ringmaster::trainer::partial_fc
