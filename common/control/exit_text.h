#pragma once

// Describes how a rank ended. The launcher uses it for its verdict and status, and the operator for
// status.failures, so both use the same text. Pure functions.

#include <string>

#include "common/control/membership.h"

namespace ringmaster::control {

// "was killed by signal 11", "was killed because its container ran out of memory (...)": what
// follows the rank's name.
std::string HowItEnded(const RankExit& exit);

// "the memory limit is 64 MiB, and at most 64 MiB were in use; raise ...": what there was, and what
// to do. Numbers that are not sizes are left out: an agent says them.
std::string MemoryText(const OutOfMemory& memory);

}  // namespace ringmaster::control
