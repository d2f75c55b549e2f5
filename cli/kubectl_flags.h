#pragma once

// The flags that kubectl-trainingjob accepts and passes on to kubectl.

namespace ringmaster::cli {

struct KubectlFlag {
  const char* name;        // "--namespace"
  const char* short_name;  // "-n", or empty
  const char* help;
};

// The flags that take a value.
inline constexpr KubectlFlag kKubectlFlags[] = {
    {"--namespace", "-n", "namespace; default: that of the context"},
    {"--context", "", "context of the kubeconfig file"},
    {"--kubeconfig", "", "kubeconfig file"},
    {"--cluster", "", "cluster of the kubeconfig file"},
    {"--user", "", "user of the kubeconfig file"},
    {"--as", "", "user to impersonate"},
    {"--as-uid", "", "UID to impersonate"},
    {"--server", "-s", "address of the API server"},
    {"--token", "", "bearer token for the API server"},
    {"--certificate-authority", "", "file with the certificate authority of the API server"},
    {"--client-certificate", "", "file with the client's certificate"},
    {"--client-key", "", "file with the client's key"},
    {"--tls-server-name", "", "name that the API server's certificate must have"},
    {"--request-timeout", "", "time limit of a single request, for example 10s"},
    {"--cache-dir", "", "folder of kubectl's discovery cache"},
};

}  // namespace ringmaster::cli
