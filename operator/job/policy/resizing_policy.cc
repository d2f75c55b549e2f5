#include "operator/job/policy/resizing_policy.h"

#include <algorithm>
#include <string>

#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

using control::LauncherPhase;

// A Pod that somebody else deletes: a node that is drained, a preemption, a person.
bool SomebodyTakesOne(const PlanInput& input) {
  const auto& failures = input.job.status.failures;
  return std::any_of(
      input.observed.deleting.begin(), input.observed.deleting.end(), [&](const PodPtr& pod) {
        return pod->leaving.empty() &&
               std::none_of(failures.begin(), failures.end(), [&](const api::Failure& failure) {
                 return failure.pod_uid == pod->uid;
               });
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

std::string ReasonOf(const PlanInput& input, const PodsOutlook& outlook,
                     const control::LauncherStatus& answer, const api::TrainingJobStatus& status) {
  const bool paused = answer.phase == LauncherPhase::kPaused && !answer.pause_reason.empty();
  if (paused) return answer.pause_reason;
  if (answer.phase == LauncherPhase::kAdopting) return api::kReasonLauncherReplaced;
  const int before = input.job.status.workers.desired;
  const int desired = status.workers.desired;
  if (before > 0 && before != desired) {
    return before < desired ? api::kReasonScalingUp : api::kReasonScalingDown;
  }
  if (outlook.worker_lost) return api::kReasonWorkerLost;
  if (const char* leaving = LeavingReason(input.observed)) return leaving;
  const api::Condition* old = api::FindCondition(input.job.status.conditions, api::kResizing);
  // A job that is resumed grows from no workers.
  if (old != nullptr && old->reason == api::kReasonSuspended) return api::kReasonScalingUp;
  for (const char* lasting : {api::kReasonScalingUp, api::kReasonScalingDown, api::kReasonDraining,
                              api::kReasonWorkerLost}) {
    if (old != nullptr && old->status == api::ConditionStatus::kTrue && old->reason == lasting) {
      return lasting;
    }
  }
  if (SomebodyTakesOne(input)) return api::kReasonDraining;
  return status.workers.members > desired ? api::kReasonScalingDown : api::kReasonWorkerLost;
}

api::Recovery RecoveryOf(const control::Recovery& recovery) {
  return {.epoch = recovery.epoch.number,
          .cause = recovery.cause,
          .worker = recovery.pod,
          .node = recovery.node,
          .detected_millis = recovery.detected_millis,
          .resumed_millis = recovery.resumed_millis,
          .steps_lost = recovery.steps_lost,
          .from_start = recovery.from_start,
          .ran_millis = recovery.ran_millis};
}

}  // namespace

void DescribeResizing(const PlanInput& input, const PodsOutlook& outlook,
                      const control::LauncherStatus& answer, api::TrainingJobStatus& status) {
  if (answer.last_recovery) status.last_recovery = RecoveryOf(*answer.last_recovery);
  if (answer.epoch.number == 0 && input.job.status.epoch == 0) return;
  const bool settled =
      answer.phase == LauncherPhase::kRunning || answer.phase == LauncherPhase::kFinished;
  const std::string counted = std::to_string(status.workers.members) + " of " +
                              std::to_string(status.workers.desired) + " workers are in the world";
  api::Condition resizing{.type = api::kResizing,
                          .status = api::ConditionStatus::kFalse,
                          .reason = api::kReasonStable,
                          .message = counted,
                          .last_transition_time = "",
                          .observed_generation = input.job.generation};
  if (!settled || status.workers.members != status.workers.desired) {
    resizing.status = api::ConditionStatus::kTrue;
    resizing.reason = ReasonOf(input, outlook, answer, status);
    if (!answer.message.empty()) resizing.message += "; " + answer.message;
    if (!outlook.unreachable.empty()) resizing.message += "; " + outlook.unreachable;
  }
  api::SetCondition(status.conditions, std::move(resizing), FormatTime(input.wall_now));
}

}  // namespace ringmaster::job
