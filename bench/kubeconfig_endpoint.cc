#include "bench/kubeconfig_endpoint.h"

#include <nlohmann/json.hpp>

#include "common/base/base64.h"
#include "tests/integration/harness/control_plane.h"
#include "tests/integration/harness/process.h"

namespace ringmaster::bench {
namespace {

std::string WriteItem(const nlohmann::json& config, const std::string& pointer,
                      const std::filesystem::path& path) {
  testing::WriteFile(path, DecodeBase64(testing::TextAt(config, pointer)).value_or(""));
  return path;
}

}  // namespace

Result<testing::Endpoint> EndpointOf(const std::string& kubeconfig,
                                     const std::filesystem::path& directory) {
  const testing::CommandOutput viewed =
      testing::RunCommand({testing::KubernetesPrograms() / "kubectl", "--kubeconfig=" + kubeconfig,
                           "config", "view", "--raw", "--minify", "--output=json"});
  const nlohmann::json config = nlohmann::json::parse(viewed.text, nullptr, false);
  const std::string server = testing::TextAt(config, "/clusters/0/cluster/server");
  const std::size_t scheme = server.find("://");
  const std::size_t colon = server.rfind(':');
  if (viewed.status != 0 || scheme == std::string::npos || colon <= scheme) {
    return Error{ErrorKind::kInvalid,
                 "no https://ADDRESS:PORT in " + kubeconfig + ": " + viewed.text};
  }
  testing::Endpoint endpoint;
  endpoint.address = server.substr(scheme + 3, colon - scheme - 3);
  endpoint.port = std::stoi(server.substr(colon + 1));
  endpoint.ca_file =
      WriteItem(config, "/clusters/0/cluster/certificate-authority-data", directory / "ca.crt");
  endpoint.certificate_file =
      WriteItem(config, "/users/0/user/client-certificate-data", directory / "client.crt");
  endpoint.key_file = WriteItem(config, "/users/0/user/client-key-data", directory / "client.key");
  return endpoint;
}

}  // namespace ringmaster::bench
