#include "operator/job/event_policy.h"

#include <set>
#include <string>
#include <utility>

#include "common/control/verdict.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

std::string Steps(int64_t steps) {
  if (steps == 0) return "no step was lost";
  return std::to_string(steps) + (steps == 1 ? " step was" : " steps were") + " lost";
}

// Of what a launcher reports; its next report may bring another before this one is written.
void TellOfStatus(bool warning, std::string reason, const char* action, std::string note,
                  Plan& plan) {
  plan.Tell(warning, std::move(reason), action, std::move(note));
  plan.events.back().of_status = true;
}

void TellRecovery(const api::TrainingJobStatus& old, Plan& plan) {
  const auto& recovery = plan.status.last_recovery;
  if (!recovery || recovery == old.last_recovery) return;
  std::string note = "training goes on in epoch " + std::to_string(recovery->epoch);
  if (!recovery->worker.empty()) {
    note += " after the loss of " + recovery->worker +
            (recovery->node.empty() ? "" : " on node " + recovery->node);
  }
  note += " (" + recovery->cause + "): noticed after " + std::to_string(recovery->detected_millis) +
          " ms, training again " + std::to_string(recovery->resumed_millis) + " ms later; " +
          Steps(recovery->steps_lost);
  TellOfStatus(false, api::kEventRecovered, api::kActionTrain, std::move(note), plan);
}

void TellWorkers(const PlanInput& input, Plan& plan) {
  const api::TrainingJobStatus& old = input.job.status;
  if (!api::IsTrue(old.conditions, api::kCreated)) return;
  const int wanted = input.job.spec.worker.replicas;
  if (old.workers.desired > 0 && old.workers.desired != wanted) {
    plan.Tell(false, api::kEventResized, api::kActionCreate,
              "from " + std::to_string(old.workers.desired) + " to " + std::to_string(wanted) +
                  " workers");
  } else if (!plan.create_workers.empty() && plan.deletes.empty() &&
             old.workers.replicas > static_cast<int>(input.observed.live.size())) {
    plan.Tell(true, api::kEventWorkerReplaced, api::kActionReplace,
              std::to_string(plan.create_workers.size()) +
                  " worker Pod(s) are gone or being deleted; new ones are made");
  }
}

// A condition that turned to a reason that is worth an event of this name.
void TellReason(const api::TrainingJobStatus& old, const char* type,
                const std::set<std::string>& quiet, Plan& plan) {
  const api::Condition* now = api::FindCondition(plan.status.conditions, type);
  const api::Condition* before = api::FindCondition(old.conditions, type);
  if (now == nullptr || (before != nullptr && before->reason == now->reason)) return;
  if (!quiet.contains(now->reason)) {
    TellOfStatus(true, now->reason, api::kActionWait, now->message, plan);
  }
}

}  // namespace

void TellBeginning(const api::TrainingJobStatus& old, Plan& plan) {
  const api::Condition* now = api::FindCondition(plan.status.conditions, api::kRestored);
  const api::Condition* before = api::FindCondition(old.conditions, api::kRestored);
  if (now == nullptr || (before != nullptr && before->reason == now->reason)) return;
  TellOfStatus(now->status != api::ConditionStatus::kTrue, now->reason, api::kActionTrain,
               now->message, plan);
}

void AddEvents(const PlanInput& input, const PodsOutlook& outlook, Plan& plan) {
  const api::TrainingJobStatus& old = input.job.status;
  const auto became = [&](const char* type) {
    return api::IsTrue(plan.status.conditions, type) && !api::IsTrue(old.conditions, type);
  };
  if (became(api::kCreated)) {
    plan.Tell(false, api::kEventCreated, api::kActionCreate,
              api::FindCondition(plan.status.conditions, api::kCreated)->message);
  }
  TellWorkers(input, plan);
  if (became(api::kRunning)) {
    TellOfStatus(false, api::kEventRunning, api::kActionTrain,
                 api::FindCondition(plan.status.conditions, api::kRunning)->message, plan);
  }
  TellRecovery(old, plan);
  TellBeginning(old, plan);
  if (!outlook.unreachable.empty() && !input.memory.told_of_nodes) {
    plan.Tell(true, api::kEventNodesUnreachable, api::kActionWait, outlook.unreachable);
  }
  // Refusals, Pods that cannot go on, pauses: what a person may have to do something about.
  TellReason(old, api::kReady,
             {api::kReasonCreating, api::kReasonWaitingForPods, api::kReasonWaitingForLauncher,
              api::kReasonWorkersReady, api::kReasonNodesUnreachable, control::kReasonOOMKilled},
             plan);
  TellReason(old, api::kResizing,
             {api::kReasonStable, api::kReasonScalingUp, api::kReasonScalingDown,
              api::kReasonDraining, api::kReasonWorkerLost, api::kReasonLauncherReplaced},
             plan);
}

}  // namespace ringmaster::job
