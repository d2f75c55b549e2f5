#include "operator/job/policy/event_policy.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/count_text.h"
#include "common/base/cut_text.h"
#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/policy/image_policy.h"

namespace ringmaster::job {

namespace {

std::string Steps(int64_t steps) {
  if (steps == 0) return "no step was lost";
  return CountText(steps, "step", "was", "were") + " lost";
}

// Adds an event that describes values in the status. It is recorded only if the status is written.
void AddStatusEvent(bool warning, std::string reason, const char* action, std::string note,
                    Plan& plan) {
  plan.AddEvent(warning, std::move(reason), action, std::move(note));
  plan.events.back().of_status = true;
}

void AddRecoveryEvent(const api::TrainingJobStatus& old, Plan& plan) {
  const auto& recovery = plan.status.last_recovery;
  if (!recovery || recovery == old.last_recovery || recovery->from_start) return;
  std::string note = "training resumed in epoch " + std::to_string(recovery->epoch);
  if (!recovery->worker.empty()) {
    note += " after the loss of " + recovery->worker +
            (recovery->node.empty() ? "" : " on node " + recovery->node);
  }
  note += " (" + recovery->cause + "): detected after " +
          std::to_string(recovery->detected_millis) + " ms, training " +
          std::to_string(recovery->resumed_millis) + " ms later; " + Steps(recovery->steps_lost);
  AddStatusEvent(false, api::kEventRecovered, api::kActionTrain, std::move(note), plan);
}

// Returns a list of the workers that other clients delete or have deleted.
std::string DeletedWorkersText(const Observed& observed, const std::vector<GoneWorker>& gone) {
  constexpr std::size_t kMostNamed = 5;
  std::vector<std::string> texts;
  const auto add = [&](const std::string& pod, const std::string& node, const std::string& how) {
    texts.push_back(pod + (node.empty() ? "" : " on node " + node) + how);
  };
  for (const PodPtr& pod : observed.deleting) {
    if (!pod->leaving.empty()) continue;
    add(pod->name, pod->node,
        pod->disruption.empty() ? " is being deleted"
                                : " is being disrupted (" + pod->disruption + ")");
  }
  for (const GoneWorker& worker : gone) {
    if (worker.news && !worker.pod.empty()) add(worker.pod, worker.node, " was deleted");
  }
  return ListText(texts, kMostNamed);
}

void AddWorkerEvents(const api::TrainingJob& job, const Observed& observed,
                     const std::vector<GoneWorker>& gone, Plan& plan) {
  const api::TrainingJobStatus& old = job.status;
  if (!api::IsTrue(old.conditions, api::kCreated)) return;
  const int wanted = job.spec.worker.replicas;
  if (old.workers.desired > 0 && old.workers.desired != wanted) {
    plan.AddEvent(
        false, api::kEventResized, api::kActionCreate,
        "from " + std::to_string(old.workers.desired) + " to " + CountText(wanted, "worker"));
  } else if (!plan.create_workers.empty() && plan.deletes.empty() &&
             old.workers.replicas > static_cast<int>(observed.live.size())) {
    const std::size_t count = plan.create_workers.size();
    const std::string who = DeletedWorkersText(observed, gone);
    plan.AddEvent(true, api::kEventWorkerReplaced, api::kActionReplace,
                  (who.empty() ? std::to_string(count) + " worker Pods are gone" : who) +
                      (count == 1 ? "; another worker replaces it"
                                  : "; " + std::to_string(count) + " others replace them"));
  }
}

// Adds an event named after the condition's reason, if the reason changed and is not in `quiet`.
void AddReasonEvent(const api::TrainingJobStatus& old, const char* type,
                    const std::set<std::string>& quiet, Plan& plan) {
  const api::Condition* now = api::FindCondition(plan.status.conditions, type);
  const api::Condition* before = api::FindCondition(old.conditions, type);
  if (now == nullptr || (before != nullptr && before->reason == now->reason)) return;
  // The kubelet alternates between these reasons while it retries.
  if (before != nullptr && IsImageWait(before->reason) && IsImageWait(now->reason)) return;
  if (!quiet.contains(now->reason)) {
    AddStatusEvent(true, now->reason, api::kActionWait, now->message, plan);
  }
}

}  // namespace

void AddRestoredEvent(const api::TrainingJobStatus& old, Plan& plan) {
  const api::Condition* now = api::FindCondition(plan.status.conditions, api::kRestored);
  const api::Condition* before = api::FindCondition(old.conditions, api::kRestored);
  if (now == nullptr || (before != nullptr && before->reason == now->reason)) return;
  AddStatusEvent(now->status != api::ConditionStatus::kTrue, now->reason, api::kActionTrain,
                 now->message, plan);
}

void AddEvents(const api::TrainingJob& job, const Observed& observed,
               const std::vector<GoneWorker>& gone, const std::string& unreachable, Plan& plan) {
  const api::TrainingJobStatus& old = job.status;
  const auto became = [&](const char* type) {
    return api::IsTrue(plan.status.conditions, type) && !api::IsTrue(old.conditions, type);
  };
  if (became(api::kCreated)) {
    plan.AddEvent(false, api::kEventCreated, api::kActionCreate,
                  api::FindCondition(plan.status.conditions, api::kCreated)->message);
  }
  AddWorkerEvents(job, observed, gone, plan);
  if (became(api::kRunning)) {
    AddStatusEvent(false, api::kEventRunning, api::kActionTrain,
                   api::FindCondition(plan.status.conditions, api::kRunning)->message, plan);
  }
  AddRecoveryEvent(old, plan);
  AddRestoredEvent(old, plan);
  if (!unreachable.empty()) {
    plan.AddEvent(true, api::kEventNodesUnreachable, api::kActionWait, unreachable);
  }
  // Report refusals, Pods that cannot continue, and pauses: users may have to act on them.
  AddReasonEvent(
      old, api::kWorkersReady,
      {api::kReasonCreating, api::kReasonWaitingForPods, api::kReasonWaitingForLauncher,
       api::kReasonWorkersReady, api::kReasonNodesUnreachable, control::kReasonOOMKilled},
      plan);
  AddReasonEvent(old, api::kResizing,
                 {api::kReasonStable, api::kReasonScalingUp, api::kReasonScalingDown,
                  api::kReasonDraining, api::kReasonWorkerLost, api::kReasonLauncherReplaced},
                 plan);
}

}  // namespace ringmaster::job
