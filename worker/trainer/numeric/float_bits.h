#pragma once

// Converts between a float and its bits, for hosts and GPUs (nvcc compiles this header as C++17).

#include <cstdint>
#include <cstring>

#include "worker/trainer/numeric/host_device.h"

namespace ringmaster::trainer {

RINGMASTER_HOST_DEVICE inline uint32_t BitsOf(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

RINGMASTER_HOST_DEVICE inline float FloatOfBits(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace ringmaster::trainer
