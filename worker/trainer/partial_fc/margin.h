#pragma once

// The margin of a margin softmax: maps the cosine between an embedding and the centre of its class
// to a logit and its slope. The logit of any other class is the cosine times the scale. Scalar code
// for hosts and devices.
//
//   ArcFace (1, m2, 0):  cos(θ + m2)      Deng et al., arXiv 1801.07698
//   CosFace (1, 0, m3):  cos θ - m3       Wang et al., arXiv 1801.09414
//   combined:            cos(m1 θ + m2) - m3
//
// Beyond half a turn the cosine would rise again and reward larger angles. As in SphereFace (arXiv
// 1704.08063), the function continues to fall: (-1)^k cos φ - 2k, with φ = m1 θ + m2 and k = ⌊φ/π⌋.

#include <cmath>

#include "worker/trainer/numeric/philox.h"

namespace ringmaster::trainer::partial_fc {

struct Margin {
  float m1 = 1;
  float m2 = 0.5F;  // radians
  float m3 = 0;
  float scale = 64;
};

// Limits a product of unit vectors, which rounding can make larger than 1. A NaN stays NaN.
RINGMASTER_HOST_DEVICE inline float ClampedCosine(float product) {
  const float above = product < -1.0F ? -1.0F : product;
  return above > 1.0F ? 1.0F : above;
}

struct TargetLogit {
  float logit = 0;  // multiplied by the scale
  float slope = 0;  // derivative of the logit with respect to the cosine
};

// Returns the logit and its slope. REQUIRES: cosine in [-1, 1]. The slope of an angular margin
// grows without limit at angles 0 and π, where the gradient of the angle becomes 0. A lower limit
// of the sine keeps the product of both finite: the smallest sine whose float cosine is not 1.
RINGMASTER_HOST_DEVICE inline TargetLogit WithMargin(const Margin& margin, float cosine) {
  if (margin.m1 == 1.0F && margin.m2 == 0.0F) {
    return {margin.scale * (cosine - margin.m3), margin.scale};
  }
  constexpr float kPi = 3.14159265F;
  constexpr float kSmallestSine = 5e-4F;
  const float sine = std::sqrt((1.0F - cosine) * (1.0F + cosine));
  const float angle = margin.m1 * std::atan2(sine, cosine) + margin.m2;
  const float turns = std::floor(angle / kPi);
  const float sign = static_cast<int>(turns) % 2 == 0 ? 1.0F : -1.0F;
  const float value = sign * std::cos(angle) - 2.0F * turns - margin.m3;
  const float slope =
      margin.m1 * sign * std::sin(angle) / (sine > kSmallestSine ? sine : kSmallestSine);
  return {margin.scale * value, margin.scale * slope};
}

}  // namespace ringmaster::trainer::partial_fc
