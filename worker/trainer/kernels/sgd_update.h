#pragma once

// Gradient descent with momentum, one pass over memory: v = momentum * v + g, p -= rate * v. The
// arithmetic of one element serves the GPU's kernel and, in tests, the host.

#include <cstdint>

#include "worker/trainer/numeric/host_device.h"

namespace ringmaster::trainer {

RINGMASTER_HOST_DEVICE inline void SgdElement(float& parameter, float& velocity, float gradient,
                                              float momentum, float rate) {
  velocity = momentum * velocity + gradient;
  parameter -= rate * velocity;
}

// Puts the update of `count` elements of a GPU's memory, 16-byte aligned, on `stream` (a
// cudaStream_t) and returns CUDA's error number, 0 for none.
int LaunchSgdUpdate(float* parameters, float* velocity, const float* gradients, int64_t count,
                    float momentum, float rate, void* stream);

}  // namespace ringmaster::trainer
