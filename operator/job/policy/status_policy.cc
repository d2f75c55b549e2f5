#include "operator/job/policy/status_policy.h"

#include "common/base/count_text.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

Condition RunningBy(const control::LauncherStatus& answer, int members, bool had_world) {
  using Phase = control::LauncherPhase;
  Condition running{.type = api::kRunning,
                    .status = ConditionStatus::kFalse,
                    .reason = api::kReasonStarting,
                    .message = answer.message.empty() ? "no ranks run yet" : answer.message};
  if (answer.phase == Phase::kRunning && answer.world_size > 0) {
    running.status = ConditionStatus::kTrue;
    running.reason = api::kReasonTraining;
    running.message = CountText(answer.world_size, "rank") + " on " + CountText(members, "worker") +
                      (answer.world_size == 1 ? " trains" : " train");
  } else if (had_world && (answer.phase == Phase::kForming || answer.phase == Phase::kAdopting)) {
    running.status = ConditionStatus::kTrue;
    running.reason = api::kReasonStopping;
    if (answer.message.empty()) running.message = "ranks continue in a world that is being formed";
  } else if (answer.phase == Phase::kPaused && !answer.pause_reason.empty()) {
    running.reason = answer.pause_reason;
    if (answer.message.empty()) running.message = "ranks wait and keep their state";
  } else if (answer.phase == Phase::kStopping) {
    running.reason = api::kReasonStopping;
    if (answer.message.empty()) running.message = "the ranks are forming a new world";
  } else if (answer.phase == Phase::kFinished) {
    running.reason = api::kReasonFinished;
    running.message = "the launcher has finished";
  }
  return running;
}

// The condition that best explains `status.state`; null if there is none.
const Condition* MostTelling(const api::TrainingJobStatus& status) {
  const auto find = [&](const char* type) { return api::FindCondition(status.conditions, type); };
  for (const char* type : {api::kFailed, api::kSucceeded, api::kSuspended}) {
    if (api::IsTrue(status.conditions, type)) return find(type);
  }
  const Condition* resizing = find(api::kResizing);
  const Condition* running = find(api::kRunning);
  const Condition* ready = find(api::kWorkersReady);
  const bool runs = running != nullptr && running->status == ConditionStatus::kTrue;
  if (runs && resizing != nullptr && resizing->status == ConditionStatus::kTrue) {
    return resizing;
  }
  const bool waits = ready != nullptr && ready->status != ConditionStatus::kTrue;
  if (!runs && waits && status.state != api::kStatePaused) return ready;
  return running;
}

}  // namespace

std::optional<Condition> JudgeRunning(const control::LauncherStatus* answer, bool launcher_lost,
                                      const api::TrainingJobStatus& status) {
  if (answer != nullptr) return RunningBy(*answer, status.workers.members, status.epoch > 0);
  if (!launcher_lost) return std::nullopt;
  return Condition{.type = api::kRunning,
                   .status = ConditionStatus::kFalse,
                   .reason = api::kReasonStarting,
                   .message = "no launcher runs yet"};
}

std::string StateOf(const std::vector<Condition>& conditions, const PodPtr& launcher) {
  const Condition* running = api::FindCondition(conditions, api::kRunning);
  if (running != nullptr && running->status == ConditionStatus::kTrue) return api::kStateRunning;
  if (running != nullptr && (running->reason == control::kPauseNoQuorum ||
                             running->reason == control::kPauseBelowMinReplicas)) {
    return api::kStatePaused;
  }
  const bool started = launcher != nullptr && launcher->phase == PodPhase::kRunning;
  return started ? api::kStateStarting : api::kStatePending;
}

std::string ReasonOfState(const api::TrainingJobStatus& status) {
  const Condition* telling = MostTelling(status);
  return telling == nullptr ? "" : telling->reason;
}

Condition JudgeReconciling(const api::TrainingJobStatus& status) {
  Condition reconciling{.type = api::kReconciling,
                        .status = ConditionStatus::kFalse,
                        .reason = status.state,
                        .message = "the job's state is " + status.state};
  const Condition* suspended = api::FindCondition(status.conditions, api::kSuspended);
  const bool suspending = suspended != nullptr && suspended->reason == api::kReasonSuspending;
  if (api::IsTrue(status.conditions, api::kStalled)) return reconciling;
  if (suspending || status.state == api::kStatePending || status.state == api::kStateStarting) {
    reconciling.status = ConditionStatus::kTrue;
    if (const Condition* telling = suspending ? suspended : MostTelling(status)) {
      reconciling.reason = telling->reason;
      reconciling.message = telling->message;
    }
  }
  return reconciling;
}

}  // namespace ringmaster::job
