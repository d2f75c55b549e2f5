#pragma once

// Decides which TrainingJobs this operator manages. Pure functions, used by reconciler and
// plan.
//
// An installation consists of all operators that share a Lease. Two installations that watch the
// same namespaces never manage the same job: it belongs to the one that creates the launcher's
// Service, which only one can. Its name is stored on the Service and in the job's status. An
// operator claims a job without a Service by writing its status (compare-and-set), and before it
// writes a failure, in a separate write, because others may accept the job. Users move a job
// with an annotation, which takes precedence: the named installation takes over the Service.

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

// No installation has it yet, as far as known. `installation`: ours; empty if there is only one,
// which manages every job.
bool IsUnclaimed(const api::TrainingJob& job, const ServiceView* launcher_service,
                 const std::string& installation);

// A person has named ours on the job.
bool IsHandedOver(const api::TrainingJob& job, const std::string& installation);

}  // namespace ringmaster::job
