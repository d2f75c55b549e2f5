#pragma once

#include <memory>

#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer::partial_fc {

// Creates the device of a head in host memory. It computes on LibTorch's threads.
std::shared_ptr<HeadDevice> MakeHostHeadDevice();

}  // namespace ringmaster::trainer::partial_fc
