#pragma once

// Asks the API server whether the operator has the permissions that it needs
// (SelfSubjectAccessReview). If some are missing, the operator logs each verb and resource,
// stays unready and asks again, instead of failing in the middle of a job. Used by main.cc for
// /readyz.

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::runtime {

struct AccessRule {
  std::string verb{};
  kube::Resource resource{};
  std::string subresource{};  // "status", or empty
  std::string ns{};           // empty: in all namespaces
  std::string name{};         // empty: any
  std::string without{};      // the effect of lacking it; empty: it is required

  // What the verb applies to: "trainingjobs.ringmaster.dev/status in all namespaces".
  std::string Target() const;
};

class AccessCheck {
 public:
  // `client` outlives the check.
  AccessCheck(kube::KubeClient& client, std::vector<AccessRule> rules,
              std::chrono::milliseconds interval = std::chrono::seconds(10));
  ~AccessCheck();  // stops

  // Asks on its own thread until everything is allowed.
  void Start();

  bool Complete() const { return complete_; }
  // The missing permissions, in one sentence; empty if complete or not asked yet.
  std::string Problem() const;
  // The missing optional permissions, in one sentence.
  std::string Note() const;

  // Asks for every rule once. True when all are allowed. What the thread does in a loop; for tests.
  bool CheckOnce();

 private:
  void Work(std::stop_token stop);
  Result<bool> Allowed(const AccessRule& rule);

  // Constant after construction.
  kube::KubeClient& client_;
  const std::vector<AccessRule> rules_;
  const std::chrono::milliseconds interval_;

  std::atomic<bool> complete_{false};

  mutable Mutex mutex_;
  StoppableCondVar wake_;
  std::string problem_ RINGMASTER_GUARDED_BY(mutex_);
  std::string note_ RINGMASTER_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace ringmaster::runtime
