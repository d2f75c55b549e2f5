#include "worker/trainer/partial_fc/vectors.h"

#include "worker/trainer/numeric/vectorised.h"
#include "worker/trainer/partial_fc/vector_elements.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr int64_t kDotLanes = 16;

RINGMASTER_VECTORISED float Dot(const float* a, const float* b, int64_t size) {
  float lanes[kDotLanes] = {};
  int64_t at = 0;
  for (; at + kDotLanes <= size; at += kDotLanes) {
    for (int64_t lane = 0; lane < kDotLanes; ++lane) lanes[lane] += a[at + lane] * b[at + lane];
  }
  for (int64_t lane = 0; at < size; ++at, ++lane) lanes[lane] += a[at] * b[at];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

RINGMASTER_VECTORISED void Scale(const float* from, float factor, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] = from[i] * factor;
}

RINGMASTER_VECTORISED void SubtractProjection(const float* unit, float length, float factor,
                                              const float* from, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] = Across(from[i], length, unit[i], factor);
}

RINGMASTER_VECTORISED void DescendAlong(const float* gradient, float scale, DescentRates rates,
                                        int64_t size, float* vector, float* momentum) {
  for (int64_t i = 0; i < size; ++i) {
    DescendElement(gradient[i], scale, rates, vector[i], momentum[i]);
  }
}

RINGMASTER_VECTORISED void CoastAlong(DescentRates rates, int64_t size, float* vector,
                                      float* momentum) {
  for (int64_t i = 0; i < size; ++i) DescendElement(0, 1, rates, vector[i], momentum[i]);
}

}  // namespace

float ToUnit(const float* vector, int64_t size, float* unit) {
  const float inverse = InverseNorm(Dot(vector, vector, size));
  Scale(vector, inverse, size, unit);
  return inverse;
}

void ThroughNormalisation(const float* unit, float inverse_norm, const float* unit_gradient,
                          int64_t size, float* gradient) {
  const float along = Dot(unit, unit_gradient, size);
  SubtractProjection(unit, along, inverse_norm, unit_gradient, size, gradient);
}

void Descend(const float* gradient, float gradient_scale, const DescentRates& rates, int64_t size,
             float* vector, float* momentum) {
  DescendAlong(gradient, gradient_scale, rates, size, vector, momentum);
}

void Coast(const DescentRates& rates, int64_t size, float* vector, float* momentum) {
  CoastAlong(rates, size, vector, momentum);
}

}  // namespace ringmaster::trainer::partial_fc
