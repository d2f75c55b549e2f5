#pragma once

// What this build of the trainer can do, and what it found: for --check-build.

#include <string>

#include "worker/trainer/gpu/gpu_choice.h"

namespace ringmaster::trainer {

// Frameworks, controllers and tensor operations, each with [X] or [ ]; versions; devices found.
std::string BuildReport(const GpuFacts& facts);

}  // namespace ringmaster::trainer
