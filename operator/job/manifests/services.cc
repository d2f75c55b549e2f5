#include "operator/job/manifests/services.h"

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "operator/api/names.h"
#include "operator/job/manifests/manifests.h"

namespace ringmaster::job {

using nlohmann::json;

void Own(json& object, const api::TrainingJob& job) {
  json& metadata = object["metadata"];
  metadata["namespace"] = job.ns;
  metadata["ownerReferences"] = json::array({{{"apiVersion", api::kApiVersion},
                                              {"kind", api::kKind},
                                              {"name", job.name},
                                              {"uid", job.uid},
                                              {"controller", true},
                                              {"blockOwnerDeletion", true}}});
  json& labels = metadata["labels"];
  labels[api::kLabelManagedBy] = api::kManagedBy;
  labels[api::kLabelJobName] = job.name;
  labels[api::kLabelJobUid] = job.uid;
}

json WorkerService(const api::TrainingJob& job) {
  json service{
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", {{"name", api::WorkerServiceName(job.name)}}},
      {"spec",
       {{"clusterIP", "None"},
        {"publishNotReadyAddresses", true},
        {"selector", {{api::kLabelJobUid, job.uid}, {api::kLabelRole, api::kRoleWorker}}}}}};
  Own(service, job);
  return service;
}

json LauncherService(const api::TrainingJob& job, const std::string& seed_id,
                     const std::string& installation, int64_t term) {
  json service{{"apiVersion", "v1"},
               {"kind", "Service"},
               {"metadata",
                {{"name", api::LauncherServiceName(job.name)},
                 {"annotations", {{api::kAnnotationSeedId, seed_id}}}}},
               {"spec",
                {{"type", "ClusterIP"},
                 {"publishNotReadyAddresses", true},
                 {"ports", json::array({{{"name", "control"},
                                         {"port", control::kControlPort},
                                         {"targetPort", control::kControlPort},
                                         {"protocol", "TCP"}}})},
                 {"selector",
                  {{api::kLabelJobUid, job.uid},
                   {api::kLabelRole, api::kRoleLauncher},
                   {api::kLabelTerm, std::to_string(term)}}}}}};
  if (!installation.empty()) {
    service["metadata"]["annotations"][api::kAnnotationInstallation] = installation;
  }
  Own(service, job);
  return service;
}

json LauncherServiceTermPatch(int64_t term) {
  return {{"spec", {{"selector", {{api::kLabelTerm, std::to_string(term)}}}}}};
}

json LauncherServiceOwnerPatch(const std::string& installation) {
  return {{"metadata", {{"annotations", {{api::kAnnotationInstallation, installation}}}}}};
}

}  // namespace ringmaster::job
