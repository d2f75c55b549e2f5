#pragma once

#include <memory>

#include "worker/trainer/partial_fc/head_device.h"

namespace ringmaster::trainer::partial_fc {

// On the host's memory, on LibTorch's threads.
std::shared_ptr<HeadDevice> MakeHostHeadDevice();

}  // namespace ringmaster::trainer::partial_fc
