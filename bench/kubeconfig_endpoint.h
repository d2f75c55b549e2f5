#pragma once

// Reads the API server's address and credentials from a kubeconfig, as an endpoint of the harness.
// Benchmarks use it for clusters that deploy/local/cluster.sh started.

#include <filesystem>
#include <string>

#include "common/base/result.h"
#include "tests/integration/harness/api_client.h"

namespace ringmaster::bench {

// Writes the certificates from the kubeconfig to files in `directory`.
Result<testing::Endpoint> EndpointOf(const std::string& kubeconfig,
                                     const std::filesystem::path& directory);

}  // namespace ringmaster::bench
