#include "worker/agent/address.h"
#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {

std::optional<Finding> CheckAddress(const Config& config) {
  const Result<std::string> address =
      FindAddress(config.launcher_address, config.spec.network_interface);
  if (address.ok()) return std::nullopt;
  return Finding{"network", address.error().message};
}

}  // namespace ringmaster::agent
