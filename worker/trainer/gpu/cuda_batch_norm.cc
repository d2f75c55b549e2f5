#include <c10/cuda/CUDAStream.h>

#include "worker/trainer/gpu/kernel_batch_norm.h"
#include "worker/trainer/kernels/batch_norm.h"

namespace ringmaster::trainer {

bool CanBatchNormOnGpu(const at::Tensor& x) {
  const bool form = x.dim() == 2 || x.dim() == 4;
  const at::ScalarType type = x.scalar_type();
  return x.is_cuda() && form && x.size(1) % kNormChannels == 0 &&
         (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
}

at::Tensor BatchNormOnGpu(const at::Tensor& x, const BatchNormLayer& layer, const at::Tensor& slope,
                          const at::Tensor& shortcut) {
  const auto stream = [number = x.device().index()]() -> void* {
    return c10::cuda::getCurrentCUDAStream(number).stream();
  };
  return KernelBatchNorm({.device = x.device(), .stream = stream}, x, layer, slope, shortcut);
}

}  // namespace ringmaster::trainer
