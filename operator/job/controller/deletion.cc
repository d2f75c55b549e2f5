#include "operator/job/controller/deletion.h"

#include <functional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/api/names.h"
#include "operator/kube/resource.h"

namespace ringmaster::job {

using nlohmann::json;

Result<void> DeletePod(const ActorTools& tools, const api::TrainingJob& job, const PodDelete& pod) {
  const auto deleted = tools.client.Delete(
      kube::kPods, job.ns, pod.name, {.uid = pod.uid, .resource_version = pod.resource_version});
  if (deleted.ok()) {
    tools.freshness.Wrote(job.Key(), kube::kPods, *deleted);
    return {};
  }
  if (deleted.error().kind == ErrorKind::kNotFound) return {};
  return deleted.error();
}

void MarkPods(JobRequests& requests, const std::vector<PodMark>& pods) {
  std::vector<std::function<void()>> patches;
  for (const PodMark& pod : pods) {
    patches.emplace_back([&requests, &pod] {
      // The UID and the version ensure that a Pod that has changed is evaluated again.
      const json patch{{"metadata",
                        {{"uid", pod.uid},
                         {"resourceVersion", pod.resource_version},
                         {"annotations", {{api::kAnnotationLeaving, pod.reason}}}}}};
      const Result<json> stored =
          requests.client().Patch(kube::kPods, requests.job().ns, pod.name, patch);
      if (stored.ok()) return requests.Wrote(kube::kPods, *stored);
      if (stored.error().kind == ErrorKind::kConflict ||
          stored.error().kind == ErrorKind::kNotFound) {
        return requests.NoteAgain();
      }
      requests.NoteError(stored.error());
    });
  }
  requests.RunAll(std::move(patches));
}

void DeletePods(JobRequests& requests, const std::vector<PodDelete>& pods) {
  std::vector<std::function<void()>> deletes;
  for (const PodDelete& pod : pods) {
    deletes.emplace_back([&requests, &pod] {
      const Result<void> deleted = DeletePod(requests.tools(), requests.job(), pod);
      // A conflict means that another Pod has this name, so the Pod to delete is gone.
      if (deleted.ok() || deleted.error().kind == ErrorKind::kConflict) return;
      requests.NoteError(deleted.error());
    });
  }
  requests.RunAll(std::move(deletes));
}

Result<void> DeletePin(JobRequests& requests, const std::string& uid) {
  const api::TrainingJob& job = requests.job();
  const auto deleted = requests.client().Delete(kube::kControllerRevisions, job.ns,
                                                api::RunPinName(job.name, job.uid), {.uid = uid});
  if (!deleted.ok() && deleted.error().kind != ErrorKind::kNotFound) {
    // A conflict means that another object has this name. Read the object before the next attempt.
    const bool changed = deleted.error().kind == ErrorKind::kConflict;
    requests.Note([&](ActResult& result) { result.pin_changed = changed; });
    return deleted.error();
  }
  requests.Note([](ActResult& result) { result.unpinned = true; });
  return {};
}

// Uses foreground deletion, so that the job and its name exist until all its objects are deleted.
void DeleteJob(JobRequests& requests) {
  const api::TrainingJob& job = requests.job();
  const auto deleted = requests.client().Delete(
      kube::kTrainingJobs, job.ns, job.name,
      {.uid = job.uid, .resource_version = job.resource_version}, kube::Propagation::kForeground);
  if (deleted.ok()) {
    LogInfo("Deleted a job after its TTL", {{"job", requests.key()}});
    return requests.tools().freshness.Wrote(requests.key(), kube::kTrainingJobs, *deleted);
  }
  if (deleted.error().kind == ErrorKind::kNotFound) return;
  if (deleted.error().kind == ErrorKind::kConflict) return requests.NoteAgain();
  requests.NoteBackOff(deleted.error());
}

}  // namespace ringmaster::job
