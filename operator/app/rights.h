#pragma once

// The API permissions that the operator needs, as granted by deploy/install.yaml. main.cc checks
// each of them with the API server (runtime/access_check.h). A test compares the list with the
// manifest by removing one rule at a time.

#include <vector>

#include "operator/app/options.h"
#include "operator/runtime/access_check.h"

namespace ringmaster {

std::vector<runtime::AccessRule> NeededRights(const Config& config);

}  // namespace ringmaster
