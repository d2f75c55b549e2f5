#include <cuda_runtime.h>

#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/sgd_update.h"

namespace ringmaster::trainer {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // maximum number of blocks; threads loop over more data
constexpr int64_t kLanes = 4;          // floats of one 16-byte access

__device__ void UpdateFour(float4& parameter, float4& velocity, const float4& gradient, float scale,
                           const SgdRates& rates) {
  SgdElement(parameter.x, velocity.x, gradient.x, scale, rates);
  SgdElement(parameter.y, velocity.y, gradient.y, scale, rates);
  SgdElement(parameter.z, velocity.z, gradient.z, scale, rates);
  SgdElement(parameter.w, velocity.w, gradient.w, scale, rates);
}

__global__ void SgdUpdate(float* __restrict__ parameters, float* __restrict__ velocity,
                          const float* __restrict__ gradients, int64_t count,
                          const float* __restrict__ scale_or_null, SgdRates rates) {
  const float scale = scale_or_null == nullptr ? 1 : *scale_or_null;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t fours = count / kLanes;
  auto* const p = reinterpret_cast<float4*>(parameters);
  auto* const v = reinterpret_cast<float4*>(velocity);
  const auto* const g = reinterpret_cast<const float4*>(gradients);
  for (int64_t i = first; i < fours; i += stride) {
    float4 parameter = p[i];
    float4 speed = v[i];
    UpdateFour(parameter, speed, g[i], scale, rates);
    p[i] = parameter;
    v[i] = speed;
  }
  for (int64_t i = fours * kLanes + first; i < count; i += stride) {
    SgdElement(parameters[i], velocity[i], gradients[i], scale, rates);
  }
}

}  // namespace

int LaunchSgdUpdate(float* parameters, float* velocity, const float* gradients, int64_t count,
                    const float* scale, const SgdRates& rates, void* stream) {
  if (count == 0) return 0;
  const int64_t wanted = (count / kLanes + kThreads) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  return Launch(SgdUpdate, dim3(blocks), kThreads, stream, parameters, velocity, gradients, count,
                scale, rates);
}

}  // namespace ringmaster::trainer
