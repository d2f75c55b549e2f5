#pragma once

// The head of partial-fc on a CPU; gpu/kernel_head_device.h is the same on a GPU.

#include <memory>

#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer::partial_fc {

// Creates the device of a head in host memory. It computes on LibTorch's threads.
std::shared_ptr<HeadDevice> MakeHostHeadDevice();

}  // namespace ringmaster::trainer::partial_fc
