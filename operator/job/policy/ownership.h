#pragma once

// Decides which TrainingJobs this operator manages. Pure functions, used by the reconciler and the
// plan.
//
// An installation consists of all operators that share a Lease. Two installations that watch the
// same namespaces never manage the same job: it belongs to the installation that creates the
// launcher's Service, and only one create succeeds. The Service and the job's status store the name
// of the installation. To fail a job without a Service, an operator first claims it with a separate
// compare-and-set write of the status, because another installation may accept the job. Users move
// a job with an annotation, which takes precedence: the named installation takes over the Service.

#include <cstdint>
#include <set>
#include <string>

#include "operator/api/types.h"
#include "operator/job/model/views.h"

namespace ringmaster::job {

struct Scope {
  std::string installation{};  // "<namespace>/<name of the Lease>"; empty: there is only one
  std::set<std::string> excluded_namespaces{};
};

// Returns true if this operator manages the job. `launcher_service`: the job's Service, or null.
bool IsOurs(const api::TrainingJob& job, const ServiceView* launcher_service, const Scope& scope);

// Returns true if this installation managed the job until the job's namespace was excluded.
bool IsLeftBehind(const api::TrainingJob& job, const ServiceView* launcher_service,
                  const Scope& scope);

// Returns true if no installation is known to manage the job yet. `installation`: the name of this
// operator's installation; empty if it is the only one and manages every job.
bool IsUnclaimed(const api::TrainingJob& job, const ServiceView* launcher_service,
                 const std::string& installation);

// Returns true if a user has assigned the job to `installation` with the annotation.
bool IsHandedOver(const api::TrainingJob& job, const std::string& installation);

// Returns true if `installation` must still write its name to the Service of a job that was handed
// over to it.
bool MustClaimService(const api::TrainingJob& job, const ServiceView* launcher_service,
                      const std::string& installation);

// Returns the version of the Service of a job that was handed over to `installation`, which has
// claimed the Service; 0 otherwise. It is above the term of the previous installation's leader,
// unlike the term of a leader that was elected earlier.
int64_t TermOfClaim(const api::TrainingJob& job, const ServiceView* launcher_service,
                    const std::string& installation);

}  // namespace ringmaster::job
