#pragma once

// Asks the API server whether the operator has the permissions that it needs
// (SelfSubjectAccessReview). If some are missing, the operator logs each verb and resource,
// stays unready and checks again, instead of failing in the middle of a job. Used by main.cc for
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
  std::string without{};      // the effect of a missing permission; empty: it is required

  // Returns the target of the verb, such as "trainingjobs.ringmaster.dev/status in all namespaces".
  std::string Target() const;
};

class AccessCheck {
 public:
  // `client` must outlive the check.
  AccessCheck(kube::KubeClient& client, std::vector<AccessRule> rules,
              std::chrono::milliseconds interval = std::chrono::seconds(10));
  ~AccessCheck();  // stops

  // Starts a thread that repeats the check until everything is allowed.
  void Start();

  bool Complete() const { return complete_; }
  // Returns a sentence about the missing permissions; empty if none are missing or not checked yet.
  std::string Problem() const;
  // Returns a sentence about the missing optional permissions.
  std::string Note() const;

  // Checks every rule once, as the thread does. Returns true if all are allowed. For tests.
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
