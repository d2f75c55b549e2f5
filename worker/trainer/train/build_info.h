#pragma once

// Describes the features of this trainer build and the devices found, for --check-build.

#include <string>

#include "worker/trainer/gpu/gpu_choice.h"

namespace ringmaster::trainer {

// Frameworks, controllers and tensor operations, each with [X] or [ ]; versions; devices found.
std::string BuildReport(const GpuFacts& facts);

}  // namespace ringmaster::trainer
