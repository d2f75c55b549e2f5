#pragma once

// The API server that a kubeconfig names, as an endpoint of the harness: benchmarks run against
// clusters that deploy/local/cluster.sh started.

#include <filesystem>
#include <string>

#include "common/base/result.h"
#include "tests/integration/harness/api_client.h"

namespace ringmaster::bench {

// Writes the certificates that the file holds into `directory`.
Result<testing::Endpoint> EndpointOf(const std::string& kubeconfig,
                                     const std::filesystem::path& directory);

}  // namespace ringmaster::bench
