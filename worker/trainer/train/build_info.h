#pragma once

// Describes the features of this trainer build and the devices found, for --check-build.

#include <string>

#include "worker/trainer/gpu/gpu_choice.h"

namespace ringmaster::trainer {

// Lists frameworks, controllers and operations, each with [X] or [ ], and versions and devices.
std::string BuildReport(const GpuFacts& facts);

}  // namespace ringmaster::trainer
