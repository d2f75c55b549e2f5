#include <ATen/core/Tensor.h>

#include "worker/trainer/gpu/gpu.h"
#include "worker/trainer/gpu/gpu_norm.h"
#include "worker/trainer/gpu/gpu_sgd.h"
#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/partial_fc/host_head_device.h"

namespace ringmaster::trainer {

GpuFacts FindGpus() { return {}; }

std::optional<GpuFault> FindGpuFault() { return {}; }

Result<std::unique_ptr<Gpu>> OpenGpu(int, std::chrono::milliseconds) {
  return Error{ErrorKind::kInternal, "this build does not support GPUs"};
}

void SgdUpdateOnGpu(at::Tensor&, at::Tensor&, const at::Tensor&, const at::Tensor*,
                    const SgdRates&) {
  TORCH_CHECK(false, "this build does not support GPUs");
}

std::shared_ptr<const NormArithmetic> GpuNormFor(const at::Tensor&) { return nullptr; }

std::shared_ptr<partial_fc::HeadDevice> MakeHeadDevice(const std::string&) {
  return partial_fc::MakeHostHeadDevice();
}

}  // namespace ringmaster::trainer
