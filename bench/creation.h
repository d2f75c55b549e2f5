#pragma once

// Shared parts of figures B1 and B2: a cluster with simulated nodes, the operator with the
// permissions of install.yaml, and a bare client that posts the manifests that the operator
// creates. One watch of the Pods measures the time of both, so that operator and bare client are
// measured in the same way.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "tests/integration/harness/api_client.h"
#include "tests/integration/harness/fault_proxy.h"
#include "tests/integration/harness/operator_process.h"
#include "tests/integration/harness/process.h"

namespace ringmaster::bench {

using Seconds = std::chrono::duration<double>;

struct CreationOptions {
  std::string kubeconfig;
  std::string program;             // path of the operator's executable
  std::vector<std::string> flags;  // additional operator flags, to compare settings
};

struct Creation {
  Seconds took{0};
  // The longest interval without a new Pod, and the number of Pods when the interval began. They
  // show where a slow run waited.
  Seconds longest_pause{0};
  std::size_t pods_before_pause = 0;
};

// Creates a default TrainingProfile for the jobs of these namespaces ("*" for all). Like a platform
// team's profile, it has limits and sets worker fields, which the operator merges into each job.
Result<void> PutDefaultProfile(testing::ApiClient& admin,
                               const std::vector<std::string>& namespaces);

class CreationBench {
 public:
  // Applies install.yaml and creates the namespaces and the default profile of their jobs.
  static Result<std::unique_ptr<CreationBench>> Start(const CreationOptions& options);

  // Restarts the operator, through the proxy or directly, and waits until it is ready and leading.
  Result<void> StartOperator(bool through_proxy);

  // Creates a job of one worker and stores the request with which the operator creates the worker's
  // Pod.
  Result<void> CapturePodRequest();

  // Create `count` Pods. The measured time begins with the first request to the API server (for
  // the job, or for the first Pod) and ends with the watch event of the last Pod.
  Result<Creation> OperatorCreates(int count);
  Result<Creation> BareClientCreates(int count);
  // Returns the log of the running operator.
  std::string OperatorLog() const { return operator_->Log(); }

  nlohmann::json Job(const std::string& ns, const std::string& name, int replicas) const;
  // Returns the captured manifest with another name and the ConfigMap "owner" of `ns` as owner.
  nlohmann::json Pod(const std::string& ns, const std::string& name) const;
  std::string PodsPath(const std::string& ns) const { return "/api/v1/namespaces/" + ns + "/pods"; }
  std::string JobsPath(const std::string& ns) const {
    return "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns + "/trainingjobs";
  }
  const std::string& pod_query() const { return pod_query_; }

  // Deletes the jobs and Pods of a namespace and waits until they and the jobs' Services are gone.
  Result<void> Clear(const std::string& ns);

  testing::ApiClient& admin() { return *admin_; }
  testing::ApiClient& through_proxy() { return *proxied_; }  // with admin's permissions
  testing::FaultProxy& proxy() { return *proxy_; }

  static constexpr char kOperatorNs[] = "bench-operator";
  static constexpr char kBareNs[] = "bench-bare";
  static constexpr char kOtherNs[] = "bench-other";
  static constexpr int kParallel = 32;  // concurrent requests, as many as the operator's limit

 private:
  CreationBench() = default;
  Result<void> Prepare();
  Result<void> PrepareProxy();
  Result<std::string> Token(const std::string& ns, const std::string& account);

  CreationOptions options_;
  testing::TemporaryDirectory directory_;
  testing::Endpoint endpoint_;
  std::unique_ptr<testing::ApiClient> admin_;
  std::unique_ptr<testing::ApiClient> proxied_;
  std::unique_ptr<testing::FaultProxy> proxy_;
  std::unique_ptr<testing::OperatorProcess> operator_;
  nlohmann::json pod_;
  std::string pod_query_;
  std::map<std::string, std::string>
      owner_uids_;  // UIDs of the ConfigMaps that own the bare client's Pods, by namespace
};

// Runs `work(0) … work(count - 1)` on `threads` threads.
void InParallel(int threads, int count, const std::function<void(int)>& work);

}  // namespace ringmaster::bench
