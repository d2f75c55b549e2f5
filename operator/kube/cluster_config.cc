#include "operator/kube/cluster_config.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace ringmaster::kube {

Environment ProcessEnvironment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

Result<ClusterConfig> LoadClusterConfig(const std::string& kubeconfig_flag,
                                        const Environment& environment) {
  if (!kubeconfig_flag.empty()) return LoadKubeconfig(kubeconfig_flag);
  if (const std::string path = environment("KUBECONFIG"); !path.empty())
    return LoadKubeconfig(path);
  if (!environment("KUBERNETES_SERVICE_HOST").empty()) return LoadInCluster(environment);
  const std::string home_config = environment("HOME") + "/.kube/config";
  std::error_code ignored;
  if (std::filesystem::exists(home_config, ignored)) return LoadKubeconfig(home_config);
  return Error{ErrorKind::kInvalid,
               "no cluster is configured: run inside a Pod, or set --kubeconfig or KUBECONFIG to a "
               "kubeconfig file"};
}

Result<ClusterConfig> LoadInCluster(const Environment& environment, const std::string& directory) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return Error{ErrorKind::kInvalid,
                 "KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set"};
  }
  ClusterConfig config;
  // The HTTP library cannot resolve a bracketed IPv6 address, so use the Service's name.
  const bool ipv6 = host.find(':') != std::string::npos;
  config.server = "https://" + (ipv6 ? std::string("kubernetes.default.svc") : host) + ":" + port;
  config.ca_file = directory + "/ca.crt";
  config.token_file = directory + "/token";
  for (const std::string& file : {config.ca_file, config.token_file}) {
    if (!std::ifstream(file).good()) {
      return Error{ErrorKind::kInvalid,
                   "cannot read " + file +
                       ": the Pod needs a service account token (automountServiceAccountToken)"};
    }
  }
  std::ifstream namespace_file(directory + "/namespace");
  config.ns = std::string{std::istreambuf_iterator<char>(namespace_file), {}};
  while (!config.ns.empty() && config.ns.back() == '\n') config.ns.pop_back();
  if (config.ns.empty()) config.ns = "default";
  return config;
}

}  // namespace ringmaster::kube
