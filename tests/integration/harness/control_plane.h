#pragma once

// A real etcd and kube-apiserver on free loopback ports, in a temporary directory, for one test
// program. There is no kubelet and no scheduler, so Pods change only when a test changes them
// (fake_kubelet.h). Tests that need garbage collection start the controller manager. The binaries
// come from the cache of deploy/local/build.sh.

#include <filesystem>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "tests/integration/harness/api_client.h"
#include "tests/integration/harness/process.h"

namespace ringmaster::testing {

class ControlPlane {
 public:
  // Returns when the API is served. An error contains the last output of etcd or the API server.
  static Result<std::unique_ptr<ControlPlane>> Start();

  // Applies deploy/install.yaml and waits until the API serves TrainingJobs.
  Result<void> Install();

  // Creates a namespace and its default ServiceAccount, so that Pods can be created in it.
  Result<void> MakeNamespace(const std::string& name);

  // Starts the named controllers. `controllers` is the value of --controllers.
  Result<void> StartControllerManager(const std::string& controllers);
  void StopControllerManager() { controller_manager_.reset(); }

  // Simulate outages. PauseEtcd() stops etcd for `duration`. RestartApiServer() kills the API
  // server and returns when it serves again at the same port.
  void PauseEtcd(std::chrono::milliseconds duration);
  Result<void> RestartApiServer();

  Endpoint AdminEndpoint() const;  // as system:masters
  // Returns a token of the ServiceAccount, as the kubelet would project it.
  Result<std::string> ServiceAccountToken(const std::string& ns, const std::string& name) const;
  static constexpr char kAdminToken[] =
      "admin-token-of-a-test";  // a token of group system:masters, for use through the proxy
  Endpoint TokenEndpoint(const std::string& token) const;
  const std::filesystem::path& directory() const { return directory_.path(); }
  std::filesystem::path pki() const { return directory() / "pki"; }
  std::filesystem::path admin_kubeconfig() const { return directory() / "admin.kubeconfig"; }
  int port() const { return port_; }

  // Runs kubectl as admin. `arguments` do not include "kubectl".
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

// Returns the folder of the Kubernetes programs; empty if deploy/local/build.sh has not run.
std::filesystem::path KubernetesPrograms();

// Returns a kubeconfig with a client certificate (endpoint.certificate_file) or a token file.
std::string Kubeconfig(const Endpoint& endpoint, const std::string& token_file = "");

}  // namespace ringmaster::testing
