#pragma once

// Checks with a dry run, strict about fields, whether the API server accepts the Pods that a
// TrainingProfile's workload would create. Mistakes in a template, which the CRD cannot detect, are
// thus reported to the profile's author before they affect a job. Used by ProfileStatuses.

#include <string>

#include "common/base/result.h"
#include "operator/job/admission/profile.h"
#include "operator/kube/kube_client.h"

namespace ringmaster::job {

struct Trial {
  std::string refused{};       // the error, with the path of the profile's field
  std::string absent_class{};  // its priority class, if it does not exist yet
};

// Both fields are empty if there is no error, or if the refusal is not about the Pods
// themselves. Refusals by quotas, policies and webhooks of `ns` are ignored, because
// other namespaces may not have them. Errors are transient. REQUIRES: profile.problem is
// empty.
Result<Trial> TryPods(kube::KubeClient& client, const std::string& ns, const Profile& profile);

}  // namespace ringmaster::job
