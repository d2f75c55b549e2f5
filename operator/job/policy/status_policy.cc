#include "operator/job/policy/status_policy.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "common/base/count_text.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

// Returns the condition WorkersReady if it explains why a worker's Pod does not start. The launcher
// only knows that the worker has not connected.
const Condition* WhyPodsAreMissing(const api::TrainingJobStatus& status) {
  const Condition* ready = api::FindCondition(status.conditions, api::kWorkersReady);
  if (ready == nullptr || ready->status == ConditionStatus::kTrue) return nullptr;
  static constexpr std::string_view kSeenByLauncher[]{
      api::kReasonWaitingForPods, api::kReasonWaitingForLauncher, api::kReasonLauncherUnreachable,
      api::kReasonWorkersReady};
  const bool seen = std::ranges::find(kSeenByLauncher, ready->reason) != std::end(kSeenByLauncher);
  return seen ? nullptr : ready;
}

Condition RunningBy(const control::LauncherStatus& answer, const api::TrainingJobStatus& status,
                    int min_replicas) {
  using Phase = control::LauncherPhase;
  const int members = status.workers.members;
  const bool had_world = status.epoch > 0;
  const std::string message = WaitText(answer, status, min_replicas);
  Condition running{.type = api::kRunning,
                    .status = ConditionStatus::kFalse,
                    .reason = api::kReasonStarting,
                    .message = message.empty() ? "no ranks run yet" : message};
  if (answer.phase == Phase::kRunning && answer.world_size > 0) {
    // In mode Restart, only the program knows whether it trains.
    const bool trains = status.elasticity_mode != api::ElasticityMode::kRestart;
    const bool one = answer.world_size == 1;
    running.status = ConditionStatus::kTrue;
    running.reason = api::kReasonTraining;
    running.message = CountText(answer.world_size, "rank") + " on " + CountText(members, "worker") +
                      (trains ? (one ? " trains" : " train") : (one ? " runs" : " run"));
    if (answer.training_ended && !answer.message.empty()) running.message = answer.message;
  } else if (had_world && (answer.phase == Phase::kForming || answer.phase == Phase::kAdopting)) {
    running.status = ConditionStatus::kTrue;
    running.reason = api::kReasonStopping;
    if (answer.message.empty()) running.message = "ranks continue in a world that is being formed";
  } else if (answer.phase == Phase::kPaused && !answer.pause_reason.empty()) {
    running.reason = answer.pause_reason;
    if (message.empty()) running.message = "ranks wait and keep their state";
  } else if (answer.phase == Phase::kStopping) {
    running.reason = api::kReasonStopping;
    if (answer.message.empty()) running.message = "the ranks are forming a new world";
  } else if (answer.phase == Phase::kFinished) {
    running.reason = api::kReasonFinished;
    running.message = "the launcher has finished";
  }
  return running;
}

// Returns the condition that best explains `status.state`, or null if there is none.
const Condition* BestExplanation(const api::TrainingJobStatus& status) {
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

std::string WaitText(const control::LauncherStatus& answer, const api::TrainingJobStatus& status,
                     int min_replicas) {
  using Phase = control::LauncherPhase;
  const bool below =
      answer.phase == Phase::kPaused && answer.pause_reason == control::kPauseBelowMinReplicas;
  const bool starts = answer.phase == Phase::kWaitingForAgents && status.epoch == 0;
  const Condition* why = below || starts ? WhyPodsAreMissing(status) : nullptr;
  if (why == nullptr) return answer.message;
  if (starts) return why->message;
  return "training is paused and its state is kept: " + std::to_string(status.workers.ready) +
         " of at least " + CountText(min_replicas, "worker", "is", "are") + " ready; " +
         why->message;
}

std::optional<Condition> JudgeRunning(const control::LauncherStatus* answer, bool launcher_lost,
                                      const api::TrainingJobStatus& status, int min_replicas) {
  if (answer != nullptr) return RunningBy(*answer, status, min_replicas);
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
  const Condition* explanation = BestExplanation(status);
  return explanation == nullptr ? "" : explanation->reason;
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
    if (const Condition* explanation = suspending ? suspended : BestExplanation(status)) {
      reconciling.reason = explanation->reason;
      reconciling.message = explanation->message;
    }
  }
  return reconciling;
}

}  // namespace ringmaster::job
