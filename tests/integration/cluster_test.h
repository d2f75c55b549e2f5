#pragma once

// The fixture of all integration tests: one etcd and API server for the program, with
// deploy/install.yaml applied; for each test a namespace of its own, a proxy, and the operator
// under the ServiceAccount and ClusterRole of install.yaml, talking through that proxy. Tests act
// as users (admin, kubectl) and as the kubelet.

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

// A job as a user writes it; tests change what differs.
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

  // A Lease that outlives a machine which stands still for a while; tests of leadership have
  // theirs.
  static inline const std::vector<std::string> kPatientLease = {
      "--lease-duration=60s", "--renew-deadline=50s", "--retry-period=1s"};

  // Starts the operator (again) and waits until it leads and is ready.
  void StartOperator(std::vector<std::string> flags = kPatientLease);
  // `asks_for_tokens`: as install.yaml runs it, anyone who reads /metrics needs one.
  void LaunchOperator(std::vector<std::string> flags = kPatientLease,
                      const std::string& account = kOperatorAccount, bool asks_for_tokens = false);
  void StartOperatorThatAsksForTokens();
  std::unique_ptr<OperatorProcess> AnotherOperator(const std::string& identity,
                                                   std::vector<std::string> flags);
  // The token of a new ServiceAccount, with install.yaml's ClusterRole for who reads /metrics or
  // without.
  std::string TokenOf(const std::string& account, bool reads_metrics);
  void StartKubelet();
  void StopKubelet() { kubelet_.reset(); }

  std::string Path(const std::string& plural, const std::string& name = "") const;
  std::string JobPath(const std::string& name) const;
  void CreateJob(const json& manifest);
  void CreateJob(const std::string& name, int replicas) {
    CreateJob(JobManifest(ns_, name, replicas));
  }
  // The collection without a name.
  static std::string ProfilePath(const std::string& ns, const std::string& name = "");
  // A TrainingProfile for the test's namespace unless `spec` lists others.
  void PutProfile(const std::string& name, json spec);
  json Job(const std::string& name);
  std::string JobUid(const std::string& name) { return TextAt(Job(name), "/metadata/uid"); }
  json Condition(const std::string& name, const std::string& type);

  // Objects of the test's namespace by name, those being deleted included.
  std::map<std::string, json> List(const std::string& plural);
  std::vector<std::string> Names(const std::string& plural);
  std::vector<json> Events(const std::string& reason);

  // Waits, and fails the test with the job's status and the operator's last lines where it does not
  // come.
  void WaitFor(const std::string& what, const std::function<bool()>& condition,
               std::chrono::milliseconds limit = std::chrono::seconds(120));
  void WaitCondition(const std::string& job, const std::string& type, const std::string& status,
                     const std::string& reason = "");

  // A healthy job of `replicas` workers up to Running, and its end by the launcher's own word.
  void RunJob(const std::string& name, int replicas);
  void FinishJob(const std::string& name, const control::Verdict& verdict, int64_t term = 1);
  static control::Verdict Success(int world_size);

  // The operator hears no more of Pods, until the proxy's policy is taken away: what it knows of
  // them gets old.
  void HoldBackPods();
  // Deletes of this Pod that were refused because it had changed.
  int64_t RefusedDeletes(const std::string& pod);

 private:
  // Under `account`, through the proxy; identity and flags are those of `options`.
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
