#pragma once

// Gradient descent with momentum in one pass over memory: v = momentum * v + g / scale +
// weight_decay * p, p -= rate * v. The GPU kernel and the tests on the host compute an element with
// the same function, SgdElement().

#include <cstdint>

#include "worker/trainer/numeric/host_device.h"

namespace ringmaster::trainer {

struct SgdRates {
  float momentum = 0;
  float rate = 0;
  float weight_decay = 0;
};

// `scale` is the factor by which the gradient was multiplied.
RINGMASTER_HOST_DEVICE inline void SgdElement(float& parameter, float& velocity, float gradient,
                                              float scale, const SgdRates& rates) {
  velocity = rates.momentum * velocity + gradient / scale + rates.weight_decay * parameter;
  parameter -= rates.rate * velocity;
}

// Queues the update of `count` elements of GPU memory, 16-byte aligned, on `stream` (a
// cudaStream_t). Returns CUDA's error number, 0 for none. `scale`, in GPU memory, is read when the
// kernel runs; null means 1.
int LaunchSgdUpdate(float* parameters, float* velocity, const float* gradients, int64_t count,
                    const float* scale, const SgdRates& rates, void* stream);

}  // namespace ringmaster::trainer
