#pragma once

// Operations on rows of floats as vectors: the length, and normalisation in the forward and the
// backward pass. Every sum has one fixed order.

#include <cstdint>

namespace ringmaster::trainer::partial_fc {

// unit = vector / |vector|. Returns 1 / |vector|, or 1e12 if the length is 0.
float ToUnit(const float* vector, int64_t size, float* unit);

// Computes the gradient of the vector from the gradient of its unit vector: the component
// orthogonal to the vector, times 1 / |vector|. The gradients may be the same memory.
void ThroughNormalisation(const float* unit, float inverse_norm, const float* unit_gradient,
                          int64_t size, float* gradient);

// Gradient descent with momentum and weight decay, for one vector: g += decay * v; m = momentum * m
// + g; v -= rate * m.
struct DescentRates {
  float rate = 0;
  float momentum = 0;
  float weight_decay = 0;
};
void Descend(const float* gradient, float gradient_scale, const DescentRates& rates, int64_t size,
             float* vector, float* momentum);
// The same update, without a gradient.
void Coast(const DescentRates& rates, int64_t size, float* vector, float* momentum);

}  // namespace ringmaster::trainer::partial_fc
