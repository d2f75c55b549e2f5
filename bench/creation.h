#pragma once

// What figures B1 and B2 have in common: a cluster with simulated nodes, the operator with the
// rights of install.yaml, the manifests that it creates, and a bare client that posts the same
// ones. Everything is timed by one observer, a watch of the Pods, so that operator and bare client
// are judged alike.

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
  std::string program;             // the operator
  std::vector<std::string> flags;  // more of its flags, to compare settings
};

struct Creation {
  Seconds took{0};
  // The longest time without a new Pod, and how many there were when it began: what a slow run
  // waited for.
  Seconds longest_pause{0};
  std::size_t pods_before_pause = 0;
};

// Gives the jobs of these namespaces, "*" for all, a default TrainingProfile as a platform team has
// one: of its limits each holds, and what it sets is merged into each job's text.
Result<void> PutDefaultProfile(testing::ApiClient& admin,
                               const std::vector<std::string>& namespaces);

class CreationBench {
 public:
  // Applies install.yaml, makes the namespaces and the default profile of their jobs.
  static Result<std::unique_ptr<CreationBench>> Start(const CreationOptions& options);

  // Starts the operator again, through the proxy or directly, and waits until it is ready.
  Result<void> StartOperator(bool through_proxy);
  void StopOperator() { operator_.reset(); }

  // Lets the operator make a job of one worker and keeps the request with which it created the
  // worker's Pod.
  Result<void> CapturePodRequest();

  // From the request to the API server (a job; the first Pod) to the event of the last of `count`
  // Pods.
  Result<Creation> OperatorCreates(int count);
  Result<Creation> BareClientCreates(int count);
  // What the operator that runs now has to say.
  std::string OperatorLog() const { return operator_->Log(); }

  nlohmann::json Job(const std::string& ns, const std::string& name, int replicas) const;
  // The captured manifest under another name, owned by an object of `ns` that stays.
  nlohmann::json Pod(const std::string& ns, const std::string& name) const;
  std::string PodsPath(const std::string& ns) const { return "/api/v1/namespaces/" + ns + "/pods"; }
  std::string JobsPath(const std::string& ns) const {
    return "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns + "/trainingjobs";
  }
  const std::string& pod_query() const { return pod_query_; }

  // Deletes the jobs and Pods of a namespace and waits until they and the jobs' Services are gone.
  Result<void> Clear(const std::string& ns);

  testing::ApiClient& admin() { return *admin_; }
  testing::ApiClient& through_proxy() { return *proxied_; }  // as admin
  testing::FaultProxy& proxy() { return *proxy_; }

  static constexpr char kOperatorNs[] = "bench-operator";
  static constexpr char kBareNs[] = "bench-bare";
  static constexpr char kOtherNs[] = "bench-other";
  static constexpr int kParallel = 32;  // requests in flight, the operator's own limit

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
      owner_uids_;  // of the ConfigMap that owns a namespace's bare Pods
};

// Runs `work(0) … work(count - 1)` on `threads` threads.
void InParallel(int threads, int count, const std::function<void(int)>& work);

}  // namespace ringmaster::bench
