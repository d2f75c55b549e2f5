#pragma once

// Where tests let a head compute: on the host; and on the device of kernels, which run on the host
// here (cuda_on_host/), so that all that handles a GPU's memory is tested.

#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/partial_fc/host_head_device.h"

namespace ringmaster::trainer {

inline std::shared_ptr<partial_fc::HeadDevice> HeadOnHostKernels() {
  return MakeKernelHeadDevice({.device = at::kCPU, .stream = [] { return nullptr; }});
}

using HeadMaker = std::shared_ptr<partial_fc::HeadDevice> (*)();
inline const auto kHeadDevices =
    testing::Values(&partial_fc::MakeHostHeadDevice, &HeadOnHostKernels);
inline std::string NameOfHeadDevice(const testing::TestParamInfo<HeadMaker>& info) {
  return info.param == &HeadOnHostKernels ? "Kernels" : "Host";
}

}  // namespace ringmaster::trainer
