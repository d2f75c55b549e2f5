#pragma once

// Computes e^x for a softmax, without branches, so that loops over it vectorise. For hosts and
// devices. Range reduction and polynomial follow Cephes' expf. The result is within 2 units in the
// last place of the exact value, and 0 below -87, where floats underflow.

#include <cstdint>

#include "worker/trainer/numeric/float_bits.h"

namespace ringmaster::trainer::partial_fc {

// The initial value of a search for the greatest logit: e^(kNoMaximum - logit) is 0.
inline constexpr float kNoMaximum = -3e38F;

// REQUIRES: x <= 88. Returns NaN for NaN.
RINGMASTER_HOST_DEVICE inline float Exponential(float x) {
  constexpr float kLowest = -87.0F;
  constexpr float kRounding = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < kLowest ? kLowest : x;
  const float shifted = clamped * 1.44269504F + kRounding;
  const float power = shifted - kRounding;
  const float r = (clamped - power * 0.693359375F) + power * 2.12194440e-4F;
  float series = 1.9875691500e-4F;
  series = series * r + 1.3981999507e-3F;
  series = series * r + 8.3334519073e-3F;
  series = series * r + 4.1665795894e-2F;
  series = series * r + 1.6666665459e-1F;
  series = series * r + 5.0000001201e-1F;
  const float mantissa = series * r * r + r + 1.0F;
  // The integer is in the lowest bits of `shifted`, and becomes the exponent.
  const uint32_t exponent = (BitsOf(shifted) + 127U) << 23;
  return x < kLowest ? 0.0F : mantissa * FloatOfBits(exponent);
}

}  // namespace ringmaster::trainer::partial_fc
