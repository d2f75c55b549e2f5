#pragma once

// The devices on which tests run a head: the host, and the device of the kernels. The second one
// tests the handling of GPU memory. The kernels run on the host too (cuda_on_host/), except in
// builds with CUDA, which use the GPU.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/partial_fc/host_head_device.h"

namespace ringmaster::trainer {

using HeadMaker = std::shared_ptr<partial_fc::HeadDevice> (*)();

#if defined(RINGMASTER_KERNELS_ON_HOST)
inline std::shared_ptr<partial_fc::HeadDevice> HeadOnHostKernels() {
  return MakeKernelHeadDevice({.device = at::kCPU, .stream = [] { return nullptr; }});
}
inline const auto kHeadDevices =
    testing::Values(&partial_fc::MakeHostHeadDevice, &HeadOnHostKernels);
#else
inline const auto kHeadDevices = testing::Values(&partial_fc::MakeHostHeadDevice);
#endif

inline std::string NameOfHeadDevice(const testing::TestParamInfo<HeadMaker>& info) {
  return info.param == &partial_fc::MakeHostHeadDevice ? "Host" : "Kernels";
}

}  // namespace ringmaster::trainer
