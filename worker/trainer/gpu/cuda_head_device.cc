#include <c10/cuda/CUDAStream.h>

#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/partial_fc/host_head_device.h"

namespace ringmaster::trainer {

std::shared_ptr<partial_fc::HeadDevice> MakeHeadDevice(const std::string& device) {
  const at::Device on(device);
  if (on.is_cpu()) return partial_fc::MakeHostHeadDevice();
  return MakeKernelHeadDevice({.device = on, .stream = [number = on.index()]() -> void* {
                                 return c10::cuda::getCurrentCUDAStream(number).stream();
                               }});
}

}  // namespace ringmaster::trainer
