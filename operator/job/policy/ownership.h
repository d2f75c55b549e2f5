#pragma once

// Which TrainingJobs this operator acts on. Pure; used by the reconciler and the plan.
//
// An installation is all operators that share one Lease. Two that watch the same namespaces never
// act on the same job: the operator that makes the launcher's Service, which only one can, has the
// job, and its name stands on that Service and then in the job's status. For a job without a
// Service the operator that writes its status takes it by that write, which is a compare-and-set;
// before an end is written, by a write of its own, because another installation may accept what
// this one refuses. A person moves a job by an annotation, which counts before both: the one that
// it names takes the Service.

#include <set>
#include <string>

#include "operator/api/types.h"
#include "operator/job/model/views.h"

namespace ringmaster::job {

struct Scope {
  std::string installation{};  // "<namespace>/<name of the Lease>"; empty: there is but one
  std::set<std::string> excluded_namespaces{};
};

// `launcher_service`: the job's own, or null.
bool IsOurs(const api::TrainingJob& job, const ServiceView* launcher_service, const Scope& scope);

// Nobody has it yet, as far as can be seen. `installation`: ours; where that is empty there is but
// one, which has every job.
bool IsUnclaimed(const api::TrainingJob& job, const ServiceView* launcher_service,
                 const std::string& installation);

// A person has named ours on the job.
bool IsHandedOver(const api::TrainingJob& job, const std::string& installation);

}  // namespace ringmaster::job
