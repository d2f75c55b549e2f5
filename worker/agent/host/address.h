#pragma once

// The address of this worker, as the launcher and other workers reach it. Used once at start by the
// agent.

#include <string>

#include "common/base/result.h"

namespace ringmaster::agent {

// Of the interface named, or, when `interface` is empty, the source address of packets to
// `launcher_address` (an IP address). Asks the kernel alone: sends nothing, does not block.
Result<std::string> FindAddress(const std::string& launcher_address, const std::string& interface);

}  // namespace ringmaster::agent
