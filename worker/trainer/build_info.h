#pragma once

// What this build of the trainer can do: for --check-build, and for refusing a device it does not
// have.

#include <string>

#include "common/base/result.h"

namespace ringmaster::trainer {

// Frameworks, controllers and tensor operations, each with [X] or [ ]; versions; devices found.
std::string BuildReport();

// kInvalid with the reason when `device` (auto, cpu or cuda) cannot be used. `gpus` is how many this
// process was given: with any, "auto" never falls back to the CPU.
Result<void> CheckDevice(const std::string& device, int gpus);

}  // namespace ringmaster::trainer
