#include "operator/job/controller/local_profiles.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/job/controller/local_profiles_plan.h"
#include "operator/kube/json_access.h"
#include "operator/kube/resource.h"

namespace ringmaster::job {

using nlohmann::json;

LocalProfiles::LocalProfiles(LocalProfilesParts parts) : parts_(std::move(parts)) {}

// Returns true if the namespace gets LocalTrainingProfiles: it is not excluded or being deleted.
bool LocalProfiles::Keeps(const std::string& ns) const {
  if (parts_.scope.excluded_namespaces.contains(ns)) return false;
  if (parts_.namespaces == nullptr) return true;
  const auto found = parts_.namespaces->Get(ns);
  return found != nullptr && !found->deleting;
}

Result<runtime::ReconcileResult> LocalProfiles::Reconcile(const std::string& key) {
  if (!Keeps(key)) {
    parts_.freshness.Forget(key);
    return runtime::ReconcileResult{};
  }
  if (!parts_.existing.Synced()) return runtime::ReconcileResult{};
  const LocalProfilesPlan plan =
      PlanLocalProfiles(ProfilesOpenTo(parts_.profiles.All(), key, parts_.profiles.operator_ns),
                        parts_.existing.InNamespace(key), parts_.scope.installation);
  std::optional<Error> failed;
  int done = 0;
  const auto note = [&](const Result<std::string>& version) {
    if (version.ok()) {
      ++done;
      parts_.freshness.Wrote(key, kube::kLocalTrainingProfiles, *version);
    } else if (!failed) {
      failed = version.error();
    }
  };
  for (const auto& removal : plan.removals) {
    const Result<std::string> removed = parts_.client.Delete(kube::kLocalTrainingProfiles, key,
                                                             removal->name, {.uid = removal->uid});
    if (removed.ok() || removed.error().kind != ErrorKind::kNotFound) note(removed);
  }
  for (const LocalProfilesPlan::Write& write : plan.writes) {
    const Result<json> stored = parts_.client.ServerSideApply(
        kube::kLocalTrainingProfiles, Manifest(key, write.name, write.spec));
    if (stored.ok()) {
      note(kube::GetString(*stored, {"metadata", "resourceVersion"}));
    } else {
      note(stored.error());
    }
  }
  if (done > 0) {
    LogInfo("Updated the LocalTrainingProfiles of a namespace",
            {{"namespace", key}, {"changes", done}});
  }
  if (failed) return *failed;
  return runtime::ReconcileResult{};
}

json LocalProfiles::Manifest(const std::string& ns, const std::string& name,
                             const std::string& spec) const {
  json manifest = {{"apiVersion", kube::kLocalTrainingProfiles.ApiVersion()},
                   {"kind", kube::kLocalTrainingProfiles.kind},
                   {"metadata", {{"name", name}, {"namespace", ns}}},
                   {"spec", *ParseJson(spec)}};
  if (!parts_.scope.installation.empty()) {
    manifest["metadata"]["annotations"] = {
        {api::kAnnotationInstallation, parts_.scope.installation}};
  }
  return manifest;
}

}  // namespace ringmaster::job
