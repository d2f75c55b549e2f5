#pragma once

// Describes how a rank ended. The launcher uses it for its verdict and status, and the operator for
// status.failures, so both use the same text. Pure functions.

#include <string>

#include "common/control/membership.h"

namespace ringmaster::control {

// Describes the rank's end, as a continuation of the rank's name: "was killed by signal 11", "was
// killed because its container ran out of memory (...)".
std::string HowItEnded(const RankExit& exit);

// Describes the memory limit, the memory use and what to do: "the memory limit is 64 MiB, and at
// most 63 MiB were in use; raise ...". Leaves out sizes that are not positive.
std::string MemoryText(const OutOfMemory& memory);

}  // namespace ringmaster::control
