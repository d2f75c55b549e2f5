#include "operator/job/policy/ownership.h"

#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

const std::string& OwnerOf(const api::TrainingJob& job, const ServiceView* launcher_service) {
  if (!job.installation.empty()) return job.installation;
  const bool on_service = launcher_service != nullptr && !launcher_service->installation.empty();
  return on_service ? launcher_service->installation : job.status.installation;
}

}  // namespace

bool IsOurs(const api::TrainingJob& job, const ServiceView* launcher_service, const Scope& scope) {
  const std::string& manager = job.spec.managed_by;
  if (!manager.empty() && manager != api::kManagedByOperator) return false;
  if (scope.excluded_namespaces.contains(job.ns)) return false;
  if (scope.installation.empty()) return true;
  const std::string& owner = OwnerOf(job, launcher_service);
  return owner.empty() || owner == scope.installation;
}

bool IsUnclaimed(const api::TrainingJob& job, const ServiceView* launcher_service,
bool IsLeftBehind(const api::TrainingJob& job, const ServiceView* launcher_service,
                  const Scope& scope) {
  if (!scope.excluded_namespaces.contains(job.ns)) return false;
  return job.status.installation == scope.installation &&
         IsOurs(job, launcher_service, {.installation = scope.installation});
}

                 const std::string& installation) {
  return !installation.empty() && OwnerOf(job, launcher_service).empty();
}

bool IsHandedOver(const api::TrainingJob& job, const std::string& installation) {
  return !installation.empty() && job.installation == installation;
}

}  // namespace ringmaster::job
