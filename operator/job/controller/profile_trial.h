#pragma once

// Checks with a dry run and strict field validation whether the API server accepts the Pods of a
// TrainingProfile's workload. The author of the profile thus sees mistakes in a template, which the
// CRD cannot detect, before they affect a job. Used by ProfileStatuses.

#include <string>

#include "common/base/result.h"
#include "operator/job/admission/profile.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::job {

struct Trial {
  std::string refused{};       // the error, with the path of the profile's field
  std::string absent_class{};  // its priority class, if it does not exist yet
};

// Tries the profile's Pods. Both fields of the result are empty if the API server accepts them.
// Refusals by quotas, policies and webhooks of `ns` are ignored, because other namespaces may not
// have them. A returned Error is transient, so the caller must retry. REQUIRES: profile.problem is
// empty.
Result<Trial> TryPods(kube::KubeClient& client, const std::string& ns, const Profile& profile);

}  // namespace ringmaster::job
