#include "operator/job/policy/ownership.h"

#include "operator/api/names.h"
#include "operator/kube/resource_version.h"

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

bool IsLeftBehind(const api::TrainingJob& job, const ServiceView* launcher_service,
                  const Scope& scope) {
  if (!scope.excluded_namespaces.contains(job.ns)) return false;
  return job.status.installation == scope.installation &&
         IsOurs(job, launcher_service, {.installation = scope.installation});
}

bool IsUnclaimed(const api::TrainingJob& job, const ServiceView* launcher_service,
                 const std::string& installation) {
  return !installation.empty() && OwnerOf(job, launcher_service).empty();
}

bool IsHandedOver(const api::TrainingJob& job, const std::string& installation) {
  return !installation.empty() && job.installation == installation;
}

bool MustClaimService(const api::TrainingJob& job, const ServiceView* launcher_service,
                      const std::string& installation) {
  return IsHandedOver(job, installation) && launcher_service != nullptr &&
         launcher_service->installation != installation;
}

int64_t TermOfClaim(const api::TrainingJob& job, const ServiceView* launcher_service,
                    const std::string& installation) {
  if (!IsHandedOver(job, installation) || launcher_service == nullptr) return 0;
  if (launcher_service->installation != installation) return 0;
  return kube::NumberOf(launcher_service->resource_version).value_or(0);
}

}  // namespace ringmaster::job
