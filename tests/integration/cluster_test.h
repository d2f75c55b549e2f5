#pragma once

// The fixture of all integration tests. The program has one etcd and API server, with
// deploy/install.yaml applied. Each test has a namespace, a proxy, and an operator that connects
// through the proxy with the ServiceAccount and ClusterRole of install.yaml. Tests act as users
// (admin, kubectl) and as the kubelet.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/verdict.h"
#include "tests/integration/harness/control_plane.h"
#include "tests/integration/harness/fake_kubelet.h"
#include "tests/integration/harness/fault_proxy.h"
#include "tests/integration/harness/operator_process.h"

namespace ringmaster::testing {

using nlohmann::json;

inline constexpr char kOperatorNamespace[] = "ringmaster-system";
inline constexpr char kOperatorAccount[] = "ringmaster-operator";

// Returns a typical job manifest. Tests change the fields that matter to them.
json JobManifest(const std::string& ns, const std::string& name, int replicas);

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest();
  ~ClusterTest() override;
  void SetUp() override;
  void TearDown() override;

  static ControlPlane& plane();
  ApiClient& admin() { return *admin_; }
  FaultProxy& proxy() { return *proxy_; }
  FakeKubelet& kubelet() { return *kubelet_; }
  OperatorProcess& op() { return *operator_; }
  const std::string& ns() const { return ns_; }

  // Lease durations that are long enough for a machine that stalls for a while. Tests of leadership
  // set other durations.
  static inline const std::vector<std::string> kPatientLease = {
      "--lease-duration=60s", "--renew-deadline=50s", "--retry-period=1s"};

  // Starts or restarts the operator, and waits until it leads and is ready.
  void StartOperator(std::vector<std::string> flags = kPatientLease);
  // `asks_for_tokens`: reading /metrics requires a token, as in install.yaml.
  void LaunchOperator(std::vector<std::string> flags = kPatientLease,
                      const std::string& account = kOperatorAccount, bool asks_for_tokens = false);
  void StartOperatorThatAsksForTokens();
  std::unique_ptr<OperatorProcess> AnotherOperator(const std::string& identity,
                                                   std::vector<std::string> flags);
  // Returns the token of a new ServiceAccount. `reads_metrics`: the account has install.yaml's
  // ClusterRole for reading /metrics.
  std::string TokenOf(const std::string& account, bool reads_metrics);
  void StartKubelet();
  void StopKubelet() { kubelet_.reset(); }

  std::string Path(const std::string& plural, const std::string& name = "") const;
  std::string JobPath(const std::string& name) const;
  void CreateJob(const json& manifest);
  void CreateJob(const std::string& name, int replicas) {
    CreateJob(JobManifest(ns_, name, replicas));
  }
  // Returns the profile's path, or the collection's path if `name` is empty.
  static std::string ProfilePath(const std::string& ns, const std::string& name = "");
  // Creates a TrainingProfile for the test's namespace, unless `spec` lists others.
  void PutProfile(const std::string& name, json spec);
  json Job(const std::string& name);
  std::string JobUid(const std::string& name) { return TextAt(Job(name), "/metadata/uid"); }
  json Condition(const std::string& name, const std::string& type);

  // Returns the objects of the test's namespace by name, including those being deleted.
  std::map<std::string, json> List(const std::string& plural);
  std::vector<std::string> Names(const std::string& plural);
  std::vector<json> Events(const std::string& reason);

  // Waits until `condition` is true. After `limit`, fails the test and prints the job's status and
  // the operator's last lines.
  void WaitFor(const std::string& what, const std::function<bool()>& condition,
               std::chrono::milliseconds limit = std::chrono::seconds(120));
  void WaitCondition(const std::string& job, const std::string& type, const std::string& status,
                     const std::string& reason = "");

  // Runs a healthy job of `replicas` workers up to Running, and ends it with a verdict.
  void RunJob(const std::string& name, int replicas);
  void FinishJob(const std::string& name, const control::Verdict& verdict, int64_t term = 1);
  static control::Verdict Success(int world_size);

  // Stops Pod updates to the operator until the test clears the proxy's policy, so that the
  // operator's view of the Pods becomes stale.
  void HoldBackPods();
  // Returns how many deletes of this Pod were refused because the Pod had changed.
  int64_t RefusedDeletes(const std::string& pod);

 private:
  // Starts an operator under `account`, through the proxy, with the settings of `options`.
  Result<std::unique_ptr<OperatorProcess>> NewOperator(OperatorOptions options,
                                                       const std::string& account);

  static int next_namespace_;

  std::string ns_;
  std::unique_ptr<ApiClient> admin_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<FakeKubelet> kubelet_;
  std::unique_ptr<OperatorProcess> operator_;
};

}  // namespace ringmaster::testing
