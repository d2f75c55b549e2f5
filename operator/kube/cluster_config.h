#pragma once

// Finds the API server and the credentials for it, in the Pod's service account or in a kubeconfig
// file. Used by main.cc to create HttpClients and the TokenSource.

#include <functional>
#include <string>

#include "common/base/result.h"

namespace ringmaster::kube {

struct ClusterConfig {
  std::string server;       // "https://host:port", without a slash at the end
  std::string server_name;  // name to verify in the certificate; empty: the host of `server`
  std::string ca_pem;       // CA certificates; or set ca_file, which each new connection reads
  std::string ca_file;
  std::string token;  // the bearer token; or set token_file, which the kubelet rotates
  std::string token_file;
  std::string certificate_pem;
  std::string key_pem;
  std::string ns;  // the operator's namespace; "default" if unset
};

// Reads an environment variable. Returns an empty string if it is unset.
using Environment = std::function<std::string(const char* name)>;
Environment ProcessEnvironment();

// Loads the first configuration that exists: the flag's kubeconfig, $KUBECONFIG, the Pod's service
// account, or ~/.kube/config. Returns kInvalid, with instructions for the user, if none exists.
Result<ClusterConfig> LoadClusterConfig(const std::string& kubeconfig_flag,
                                        const Environment& environment);

// Uses KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and the files in `directory`.
Result<ClusterConfig> LoadInCluster(
    const Environment& environment,
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

// Loads the file's current context. Returns an error for skipped TLS verification, for exec and
// auth-provider plug-ins, and for contexts, clusters or users that are not in the file. Relative
// paths start at the file's folder.
Result<ClusterConfig> LoadKubeconfig(const std::string& path);

}  // namespace ringmaster::kube
