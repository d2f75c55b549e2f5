#pragma once

// Keeps in each namespace a LocalTrainingProfile for each TrainingProfile that its jobs may name,
// so that people see there what they may use (ADR 113). Nothing reads them but
// people: jobs are judged by the profiles themselves. Called by the workers of a Controller of its
// own, for different namespaces at once, never twice at once for the same one.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/job/controller/observe.h"
#include "operator/job/controller/profile_source.h"
#include "operator/job/policy/ownership.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/freshness.h"

namespace ringmaster::job {

// All references outlive the keeper.
struct LocalProfilesParts {
  kube::KubeClient& client;
  runtime::FreshnessGate& freshness;
  ProfileSource profiles;
  const LocalProfileStore& existing;
  const NamespaceStore* namespaces = nullptr;  // null: the only one that is watched is there
  Scope scope;
};

class LocalProfiles {
 public:
  explicit LocalProfiles(LocalProfilesParts parts);

  // `key` is the name of a namespace, which may be gone. Blocks on the API server. Does nothing
  // before the store of existing ones is filled.
  Result<runtime::ReconcileResult> Reconcile(const std::string& key);

 private:
  bool Keeps(const std::string& ns) const;
  nlohmann::json Manifest(const std::string& ns, const std::string& name,
                          const std::string& spec) const;

  const LocalProfilesParts parts_;
};

}  // namespace ringmaster::job
