#include <cuda_runtime.h>

#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/sgd_update.h"

namespace ringmaster::trainer {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // more only wait for each other: the loop strides
constexpr int64_t kLanes = 4;          // floats of one 16-byte access

__device__ void UpdateFour(float4& parameter, float4& velocity, const float4& gradient,
                           float momentum, float rate) {
  SgdElement(parameter.x, velocity.x, gradient.x, momentum, rate);
  SgdElement(parameter.y, velocity.y, gradient.y, momentum, rate);
  SgdElement(parameter.z, velocity.z, gradient.z, momentum, rate);
  SgdElement(parameter.w, velocity.w, gradient.w, momentum, rate);
}

__global__ void SgdUpdate(float* __restrict__ parameters, float* __restrict__ velocity,
                          const float* __restrict__ gradients, int64_t count, float momentum,
                          float rate) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t fours = count / kLanes;
  auto* const p = reinterpret_cast<float4*>(parameters);
  auto* const v = reinterpret_cast<float4*>(velocity);
  const auto* const g = reinterpret_cast<const float4*>(gradients);
  for (int64_t i = first; i < fours; i += stride) {
    float4 parameter = p[i];
    float4 speed = v[i];
    UpdateFour(parameter, speed, g[i], momentum, rate);
    p[i] = parameter;
    v[i] = speed;
  }
  for (int64_t i = fours * kLanes + first; i < count; i += stride) {
    SgdElement(parameters[i], velocity[i], gradients[i], momentum, rate);
  }
}

}  // namespace

int LaunchSgdUpdate(float* parameters, float* velocity, const float* gradients, int64_t count,
                    float momentum, float rate, void* stream) {
  if (count == 0) return 0;
  const int64_t wanted = (count / kLanes + kThreads) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  return Launch(SgdUpdate, dim3(blocks), kThreads, stream, parameters, velocity, gradients, count,
                momentum, rate);
}

}  // namespace ringmaster::trainer
