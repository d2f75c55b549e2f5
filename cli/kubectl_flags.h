#pragma once

// The flags of kubectl that kubectl-trainingjob has, too, and passes on.

namespace ringmaster::cli {

struct KubectlFlag {
  const char* name;        // "--namespace"
  const char* short_name;  // "-n", or empty
  const char* help;
};

// Those that take a value.
inline constexpr KubectlFlag kKubectlFlags[] = {
    {"--namespace", "-n", "the namespace; the default is the context's"},
    {"--context", "", "a context of the kubeconfig"},
    {"--kubeconfig", "", "the kubeconfig file"},
    {"--cluster", "", "a cluster of the kubeconfig"},
    {"--user", "", "a user of the kubeconfig"},
    {"--as", "", "who to act as"},
    {"--as-uid", "", "the UID of who to act as"},
    {"--server", "-s", "the API server's address"},
    {"--token", "", "a bearer token for the API server"},
    {"--certificate-authority", "", "the file with the API server's CA"},
    {"--client-certificate", "", "the file with the client's certificate"},
    {"--client-key", "", "the file with the client's key"},
    {"--tls-server-name", "", "the name in the API server's certificate"},
    {"--request-timeout", "", "how long one request may take, for example 10s"},
    {"--cache-dir", "", "where kubectl keeps what it has discovered"},
};

}  // namespace ringmaster::cli
