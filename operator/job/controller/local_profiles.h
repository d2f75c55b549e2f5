#pragma once

// Maintains a LocalTrainingProfile in each namespace for each TrainingProfile that its jobs may
// name, so that users can see the profile (ADR 113). Only users read these objects: jobs are
// checked against the TrainingProfiles. The workers of a separate Controller call LocalProfiles,
// concurrently for different namespaces but never for the same one.

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

// All references must outlive LocalProfiles.
struct LocalProfilesParts {
  kube::KubeClient& client;
  runtime::FreshnessGate& freshness;
  ProfileSource profiles;
  const LocalProfileStore& existing;
  const NamespaceStore* namespaces = nullptr;  // null: only one namespace is watched
  Scope scope;
};

class LocalProfiles {
 public:
  explicit LocalProfiles(LocalProfilesParts parts);

  // Reconciles a namespace, whose name is `key` and which may be gone. Blocks on the API server.
  // Does nothing before the store of LocalTrainingProfiles is filled.
  Result<runtime::ReconcileResult> Reconcile(const std::string& key);

 private:
  bool Keeps(const std::string& ns) const;
  nlohmann::json Manifest(const std::string& ns, const std::string& name,
                          const std::string& spec) const;

  const LocalProfilesParts parts_;
};

}  // namespace ringmaster::job
