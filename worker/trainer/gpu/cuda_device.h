#pragma once

// Implements the device of the NCCL communicators (comm/nccl/device_api.h) with the CUDA runtime.

#include <memory>

#include "worker/trainer/comm/nccl/device_api.h"

namespace ringmaster::trainer {

// `number` is CUDA's number of the GPU among the visible devices.
std::unique_ptr<DeviceApi> MakeCudaDevice(int number);

}  // namespace ringmaster::trainer
