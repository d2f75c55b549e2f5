#pragma once

// All that the operator does with the API, as deploy/install.yaml grants it. main.cc asks the API
// server for each (runtime/access_check.h); a test compares it with the manifest by leaving out one
// rule after the other.

#include <vector>

#include "operator/app/options.h"
#include "operator/runtime/access_check.h"

namespace ringmaster {

std::vector<runtime::AccessRule> NeededRights(const Config& config);

}  // namespace ringmaster
