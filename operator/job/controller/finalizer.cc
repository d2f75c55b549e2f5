#include "operator/job/controller/finalizer.h"

#include <nlohmann/json.hpp>

#include "operator/api/names.h"
#include "operator/kube/json_access.h"
#include "operator/kube/resource.h"

namespace ringmaster::job {

using nlohmann::json;

Result<FinalizerWrite> WriteFinalizer(kube::KubeClient& client, const api::TrainingJob& job,
                                      bool held) {
  const Result<json> stored = client.Get(kube::kTrainingJobs, job.ns, job.name);
  if (!stored.ok()) {
    if (stored.error().kind == ErrorKind::kNotFound) return FinalizerWrite{};
    return stored.error();
  }
  if (kube::GetString(*stored, {"metadata", "uid"}) != job.uid) return FinalizerWrite{};
  json finalizers = json::array();
  bool has = false;
  for (const json& finalizer : kube::GetArray(*stored, {"metadata", "finalizers"})) {
    const bool ours = finalizer == json(api::kFinalizer);
    has = has || ours;
    if (!ours) finalizers.push_back(finalizer);
  }
  FinalizerWrite write{.before = kube::GetString(*stored, {"metadata", "resourceVersion"})};
  write.after = write.before;
  if (has == held) return write;
  if (held) finalizers.push_back(api::kFinalizer);
  const Result<json> patched = client.Patch(kube::kTrainingJobs, job.ns, job.name,
                                            {{"metadata",
                                              {{"uid", job.uid},
                                               {"resourceVersion", write.before},
                                               {"finalizers", std::move(finalizers)}}}});
  if (!patched.ok()) {
    if (patched.error().kind == ErrorKind::kNotFound) return FinalizerWrite{};
    return patched.error();
  }
  write.after = kube::GetString(*patched, {"metadata", "resourceVersion"});
  return write;
}

}  // namespace ringmaster::job
