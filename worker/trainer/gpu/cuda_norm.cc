#include <c10/cuda/CUDAStream.h>

#include "worker/trainer/gpu/kernel_norm.h"
#include "worker/trainer/kernels/batch_norm.h"

namespace ringmaster::trainer {

std::shared_ptr<const NormArithmetic> GpuNormFor(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  if (!x.is_cuda() || x.size(1) % kNormChannels != 0 ||
      (type != at::kFloat && type != at::kHalf && type != at::kBFloat16)) {
    return nullptr;
  }
  return KernelNorm({.device = x.device(), .stream = [number = x.device().index()]() -> void* {
                       return c10::cuda::getCurrentCUDAStream(number).stream();
                     }});
}

}  // namespace ringmaster::trainer
