#include "operator/job/ownership.h"

#include "operator/api/names.h"

namespace ringmaster::job {

bool IsOurs(const api::TrainingJob& job, const ServiceView* launcher_service, const Scope& scope) {
  const std::string& manager = job.spec.run_policy.managed_by;
  if (!manager.empty() && manager != api::kManagedByOperator) return false;
  if (scope.excluded_namespaces.contains(job.ns)) return false;
  if (scope.installation.empty()) return true;
  const bool on_service = launcher_service != nullptr && !launcher_service->installation.empty();
  const std::string& owner = on_service ? launcher_service->installation : job.status.installation;
  return owner.empty() || owner == scope.installation;
}

}  // namespace ringmaster::job
