#pragma once

// Finds the API server and the credentials for it, in the Pod's service account or in a kubeconfig
// file. Used by main.cc to create HttpClients and the TokenSource.

#include <functional>
#include <string>

#include "common/base/result.h"

namespace ringmaster::kube {

struct ClusterConfig {
  std::string server;       // "https://host:port", without a slash at the end
  std::string server_name;  // name to verify instead of the server's host; usually empty
  std::string ca_pem;       // or ca_file, which is read again for each connection
  std::string ca_file;
  std::string token;  // or token_file, which the kubelet rotates
  std::string token_file;
  std::string certificate_pem;
  std::string key_pem;
  std::string ns;  // the operator's namespace; "default" if unset
};

// Reads an environment variable; empty when unset.
using Environment = std::function<std::string(const char* name)>;
Environment ProcessEnvironment();

// The kubeconfig given by flag, else the one in $KUBECONFIG, else our Pod's service account, else
// ~/.kube/config. kInvalid with what to do when nothing is found.
Result<ClusterConfig> LoadClusterConfig(const std::string& kubeconfig_flag,
                                        const Environment& environment);

// From KUBERNETES_SERVICE_HOST and _PORT and the files under `directory`.
Result<ClusterConfig> LoadInCluster(
    const Environment& environment,
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

// The file's current context. Refused with a sentence: skipped TLS verification, exec and
// auth-provider plug-ins, and contexts, clusters or users that are not in the file. Relative paths
// count from the file's folder.
Result<ClusterConfig> LoadKubeconfig(const std::string& path);

}  // namespace ringmaster::kube
