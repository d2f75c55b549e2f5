#pragma once

// Which TrainingJobs this operator acts on. Pure; used by the reconciler.
//
// An installation is all operators that share one Lease. Two that watch the same namespaces never
// act on the same job: whoever makes the launcher's Service, which only one can, has the job, and
// its name stands on that Service and then in the job's status.

#include <set>
#include <string>

#include "operator/api/types.h"
#include "operator/job/views.h"

namespace ringmaster::job {

struct Scope {
  std::string installation{};  // "<namespace>/<name of the Lease>"; empty: there is but one
  std::set<std::string> excluded_namespaces{};
};

// `launcher_service`: the job's own, or null.
bool IsOurs(const api::TrainingJob& job, const ServiceView* launcher_service, const Scope& scope);

}  // namespace ringmaster::job
