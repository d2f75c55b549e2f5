#pragma once

// A real etcd and kube-apiserver on free loopback ports, in a temporary directory, for one test
// program: no kubelet, no scheduler. Objects stay where they are put unless a test moves them
// (fake_kubelet.h). The controller manager comes only where a test wants its garbage collection.
// Binaries come from the cache of deploy/local/build.sh.

#include <filesystem>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "tests/integration/harness/api_client.h"
#include "tests/integration/harness/process.h"

namespace ringmaster::testing {

class ControlPlane {
 public:
  // Serves when this returns. Fails with what etcd or the API server said last.
  static Result<std::unique_ptr<ControlPlane>> Start();

  // Applies deploy/install.yaml and waits until the API serves TrainingJobs.
  Result<void> Install();

  // A namespace in which Pods can be created; the service-account controller's share is done here.
  Result<void> MakeNamespace(const std::string& name);

  // The controllers named, as kube-controller-manager's --controllers has them.
  Result<void> StartControllerManager(const std::string& controllers);
  void StopControllerManager() { controller_manager_.reset(); }

  // Outages. Etcd stands still and goes on; the API server is killed, and serves again at its old
  // port when this returns.
  void PauseEtcd(std::chrono::milliseconds duration);
  Result<void> RestartApiServer();

  Endpoint AdminEndpoint() const;  // as system:masters
  // A token of the ServiceAccount, as the kubelet would project it.
  Result<std::string> ServiceAccountToken(const std::string& ns, const std::string& name) const;
  static constexpr char kAdminToken[] =
      "admin-token-of-a-test";  // system:masters, for use through the proxy
  Endpoint TokenEndpoint(const std::string& token) const;
  const std::filesystem::path& directory() const { return directory_.path(); }
  std::filesystem::path pki() const { return directory() / "pki"; }
  std::filesystem::path admin_kubeconfig() const { return directory() / "admin.kubeconfig"; }
  int port() const { return port_; }

  // kubectl as admin; `arguments` as on a command line, without "kubectl".
  CommandOutput Kubectl(std::vector<std::string> arguments,
                        const std::string& stdin_text = "") const;

 private:
  ControlPlane() = default;
  Result<void> MakeCertificates();
  Result<void> StartEtcd();
  Result<void> StartApiServer();
  Result<void> MakeDefaultAccount(const std::string& ns);

  TemporaryDirectory directory_;
  TemporaryDirectory etcd_data_{MemoryFolder()};
  int etcd_port_ = 0;
  int port_ = 0;
  std::unique_ptr<Process> etcd_;
  std::unique_ptr<Process> apiserver_;
  std::unique_ptr<Process> controller_manager_;
};

// Where the Kubernetes programs are; empty when deploy/local/build.sh has not run.
std::filesystem::path KubernetesPrograms();

// A kubeconfig with either a client certificate (endpoint.certificate_file) or a token file.
std::string Kubeconfig(const Endpoint& endpoint, const std::string& token_file = "");

}  // namespace ringmaster::testing
