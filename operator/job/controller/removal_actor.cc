#include "operator/job/controller/removal_actor.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/admission/pod_policy.h"
#include "operator/job/controller/deletion.h"
#include "operator/job/controller/finalizer.h"
#include "operator/job/controller/refusal.h"
#include "operator/job/manifests/removal_pod.h"
#include "operator/kube/json_access.h"
#include "operator/kube/resource.h"
#include "operator/kube/status_error.h"

namespace ringmaster::job {

using nlohmann::json;

RemovalActor::RemovalActor(const ActorTools& tools, const api::TrainingJob& job,
                           const std::optional<JudgedJob>& judged, const JobRules& rules,
                           RemovalMemory memory)
    : tools_(tools), job_(job), judged_(judged), rules_(rules), memory_(std::move(memory)) {}

Result<std::optional<std::chrono::milliseconds>> RemovalActor::Act(const RemovalPlan& plan) {
  // A Pod that cannot be deleted must not prevent the deletion of the job.
  const Result<void> deleted = DeletePods(plan);
  if (!deleted.ok() && !plan.release) return deleted.error();
  if (plan.create_pod) {
    if (const Result<void> made = MakePod(); !made.ok()) return made.error();
    if (memory_.refusal) return plan.requeue_after;  // the next reconcile writes the reason
  }
  if (!plan.release) {
    if (const Result<void> written = WriteWaitingCondition(plan.waiting_reason, plan.waiting_for);
        !written.ok()) {
      return written.error();
    }
    return plan.requeue_after;
  }
  const Result<FinalizerWrite> released = WriteFinalizer(tools_.client, job_, false);
  if (!released.ok()) return released.error();
  memory_.released = true;
  if (plan.event) Record(*plan.event);
  return std::optional<std::chrono::milliseconds>();
}

Result<void> RemovalActor::DeletePods(const RemovalPlan& plan) {
  const Error thrown{ErrorKind::kInternal,
                     "an exception ended a request to delete a Pod of the deleted job " +
                         job_.Key() + "; see the log"};
  std::vector<Result<void>> results(plan.deletes.size(), thrown);
  std::vector<std::function<void()>> requests;
  for (std::size_t i = 0; i < plan.deletes.size(); ++i) {
    requests.emplace_back([this, &pod = plan.deletes[i], &result = results[i]] {
      result = DeletePod(tools_, job_, pod);
      // A conflict means that another Pod has this name, so the Pod to delete is gone.
      if (!result.ok() && result.error().kind == ErrorKind::kConflict) result = {};
    });
  }
  if (!requests.empty()) tools_.pool.RunAll(job_.Key(), std::move(requests));
  for (const Result<void>& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

Result<void> RemovalActor::MakePod() {
  const Clock::Time now = tools_.clock.Now();
  const json manifest = RemovalPod(*judged_, tools_.injection);
  if (const auto found = CheckPod(manifest, rules_); !found.empty()) {
    memory_.refusal = JudgedRefusal(found, true, now);
    memory_.for_good = true;
    return {};
  }
  const Result<json> created = tools_.client.Create(kube::kPods, job_.ns, manifest);
  if (created.ok()) {
    memory_.pod_uid = kube::GetString(*created, {"metadata", "uid"});
    memory_.refusal.reset();
    tools_.freshness.Wrote(job_.Key(), kube::kPods,
                           kube::GetString(*created, {"metadata", "resourceVersion"}));
    return {};
  }
  const Error& error = created.error();
  const int failures = memory_.refusal ? memory_.refusal->failures : 0;
  if (error.kind == ErrorKind::kAlreadyExists) {
    // If the existing Pod belongs to this job, the store will show it soon.
    memory_.refusal = MakeRefusal(RefusalCause::kNameConflict,
                                  "a Pod with this name already exists; delete the Pod " +
                                      api::CleanUpPodName(job_.name, job_.uid),
                                  failures, now);
    return {};
  }
  if (IsTransient(error) && !IsOfBrokenWebhook(error) && !MayLast(error)) return error;
  // The job's Pods free quota when they end, and a policy, a webhook or the API server may admit
  // the Pod later. Other refusals last.
  memory_.refusal = RefusalOf(error, true, failures, now);
  memory_.refusal->retry_at = std::max(memory_.refusal->retry_at, now + error.retry_after);
  memory_.for_good = !IsTransient(error) && !kube::IsQuotaRefusal(error) && !IsFromPolicy(error);
  return {};
}

Result<void> RemovalActor::WriteWaitingCondition(const std::string& reason,
                                                 const std::string& what) {
  const api::Condition* known =
      api::FindCondition(job_.status.conditions, api::kCheckpointsRemoved);
  if (known != nullptr && known->message == what) return {};
  api::TrainingJobStatus status = job_.status;
  api::SetCondition(status.conditions,
                    {.type = api::kCheckpointsRemoved,
                     .status = api::ConditionStatus::kFalse,
                     .reason = reason,
                     .message = what,
                     .last_transition_time = "",
                     .observed_generation = job_.generation},
                    FormatTime(tools_.clock.WallNow()));
  const json patch{
      {"metadata", {{"resourceVersion", job_.resource_version}}},
      {"status", kube::MakeMergePatch(api::EncodeStatus(job_.status), api::EncodeStatus(status))}};
  const Result<json> stored =
      tools_.client.PatchStatus(kube::kTrainingJobs, job_.ns, job_.name, patch);
  if (stored.ok()) {
    tools_.freshness.Wrote(job_.Key(), kube::kTrainingJobs,
                           kube::GetString(*stored, {"metadata", "resourceVersion"}));
    return {};
  }
  // Ignore a conflict: the write changes only messages, and the store will soon show the change.
  const ErrorKind kind = stored.error().kind;
  if (kind == ErrorKind::kConflict || kind == ErrorKind::kNotFound) return {};
  return stored.error();
}

void RemovalActor::Record(const PlannedEvent& event) {
  LogInfo("Released a deleted job", {{"job", job_.Key()}, {"checkpoints", event.note}});
  tools_.events.Record(EventOn(job_, event));
}

}  // namespace ringmaster::job
