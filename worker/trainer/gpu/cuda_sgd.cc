#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "worker/trainer/gpu/gpu_sgd.h"

namespace ringmaster::trainer {

void SgdUpdateOnGpu(at::Tensor& parameters, at::Tensor& velocity, const at::Tensor& gradients,
                    const at::Tensor* scale, const SgdRates& rates) {
  const auto stream = c10::cuda::getCurrentCUDAStream(parameters.device().index());
  const int error = LaunchSgdUpdate(parameters.data_ptr<float>(), velocity.data_ptr<float>(),
                                    gradients.data_ptr<float>(), parameters.numel(),
                                    scale == nullptr ? nullptr : scale->data_ptr<float>(), rates,
                                    stream.stream());
  TORCH_CHECK(error == 0, "starting the update of the parameters on the GPU: CUDA reported \"",
              cudaGetErrorString(static_cast<cudaError_t>(error)), "\"");
}

}  // namespace ringmaster::trainer
