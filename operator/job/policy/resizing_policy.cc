#include "operator/job/policy/resizing_policy.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/count_text.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/policy/status_policy.h"

namespace ringmaster::job {

namespace {

using control::LauncherPhase;

// Returns true if a node drain, a preemption or a user deletes a worker Pod.
bool AnotherClientDeletesWorker(const Observed& observed,
                                const std::vector<api::Failure>& failures) {
  return std::any_of(observed.deleting.begin(), observed.deleting.end(), [&](const PodPtr& pod) {
    return pod->leaving.empty() &&
           std::none_of(failures.begin(), failures.end(),
                        [&](const api::Failure& failure) { return failure.pod_uid == pod->uid; });
  });
}

const char* LeavingReason(const Observed& observed) {
  const char* reason = nullptr;
  for (const PodPtr& pod : observed.live) {
    if (pod->leaving.empty()) continue;
    if (pod->leaving == api::kReasonScalingDown) return api::kReasonScalingDown;
    reason = api::kReasonDraining;
  }
  return reason;
}

std::string ReasonOf(const Observed& observed, const control::LauncherStatus& answer,
                     bool worker_lost, const api::TrainingJobStatus& old_status,
                     const api::WorkerCounts& workers) {
  const bool paused = answer.phase == LauncherPhase::kPaused && !answer.pause_reason.empty();
  if (paused) return answer.pause_reason;
  if (answer.phase == LauncherPhase::kAdopting) return api::kReasonLauncherReplaced;
  const int before = old_status.workers.desired;
  const int desired = workers.desired;
  if (before > 0 && before != desired) {
    return before < desired ? api::kReasonScalingUp : api::kReasonScalingDown;
  }
  if (worker_lost) return api::kReasonWorkerLost;
  if (const char* leaving = LeavingReason(observed)) return leaving;
  const api::Condition* old = api::FindCondition(old_status.conditions, api::kResizing);
  // A resumed job starts without workers, so it scales up.
  if (old != nullptr && old->reason == api::kReasonSuspended) return api::kReasonScalingUp;
  for (const char* lasting : {api::kReasonScalingUp, api::kReasonScalingDown, api::kReasonDraining,
                              api::kReasonWorkerLost}) {
    if (old != nullptr && old->status == api::ConditionStatus::kTrue && old->reason == lasting) {
      return lasting;
    }
  }
  if (AnotherClientDeletesWorker(observed, old_status.failures)) return api::kReasonDraining;
  return workers.members > desired ? api::kReasonScalingDown : api::kReasonWorkerLost;
}

}  // namespace

std::optional<api::Condition> JudgeResizing(
    const Observed& observed, const control::LauncherStatus& answer, const PodsOutlook& outlook,
    const api::TrainingJobStatus& old, const api::TrainingJobStatus& status, int min_replicas) {
  if (status.epoch == 0) return std::nullopt;
  const bool settled =
      answer.phase == LauncherPhase::kRunning || answer.phase == LauncherPhase::kFinished;
  const std::string counted = std::to_string(status.workers.members) + " of " +
                              CountText(status.workers.desired, "worker", "is", "are") +
                              " in the world";
  api::Condition resizing{.type = api::kResizing,
                          .status = api::ConditionStatus::kFalse,
                          .reason = api::kReasonStable,
                          .message = counted};
  if (!settled || status.workers.members != status.workers.desired) {
    resizing.status = api::ConditionStatus::kTrue;
    resizing.reason = ReasonOf(observed, answer, outlook.worker_lost, old, status.workers);
    // A paused job has no world, so the number of workers in it is not reported.
    const bool paused = answer.phase == LauncherPhase::kPaused;
    const std::string waits = paused ? WaitText(answer, status, min_replicas) : answer.message;
    if (!waits.empty()) resizing.message = paused ? waits : counted + "; " + waits;
    if (!outlook.unreachable.empty()) resizing.message += "; " + outlook.unreachable;
  }
  return resizing;
}

}  // namespace ringmaster::job
