#pragma once

// Loads and stores 16-bit and 32-bit numbers as floats; kernels compute in floats.

#include <cstdint>

#include <cuda_runtime.h>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include "worker/trainer/comm/narrow_floats.h"
#endif

namespace ringmaster::trainer {

struct StoredFloat16 {
  uint16_t bits;
};
struct StoredBFloat16 {
  uint16_t bits;
};

__device__ inline float FloatOf(float value) { return value; }

__device__ inline float FloatOf(StoredFloat16 value) {
#if defined(__CUDACC__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return FloatOfFloat16(value.bits);
#endif
}

__device__ inline float FloatOf(StoredBFloat16 value) {
#if defined(__CUDACC__)
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
#else
  return FloatOfBFloat16(value.bits);
#endif
}

__device__ inline void Store(float value, float& to) { to = value; }

__device__ inline void Store(float value, StoredFloat16& to) {
#if defined(__CUDACC__)
  to.bits = __half_as_ushort(__float2half_rn(value));
#else
  to.bits = Float16Of(value);
#endif
}

__device__ inline void Store(float value, StoredBFloat16& to) {
#if defined(__CUDACC__)
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  to.bits = BFloat16Of(value);
#endif
}

}  // namespace ringmaster::trainer
