#include "operator/job/policy/ready_policy.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/count_text.h"
#include "common/control/reasons.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/policy/crash_policy.h"
#include "operator/job/policy/start_advice.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

// A shorter silence is not reported: a restart, a full queue or a slow node may cause it.
constexpr auto kTellSilenceAfter = std::chrono::seconds(5);

std::string ReadyOf(int ready, int wanted) {
  return std::to_string(ready) + " of " + CountText(wanted, "worker") +
         (wanted == 1 ? " is ready" : " are ready");
}

// Returns the condition for the Pod if it cannot start without intervention.
std::optional<Condition> TroubleOf(const api::TrainingJob& job, const PodView& pod,
                                   const NodesSeen& nodes, const SlowStart& slow) {
  if (!pod.unschedulable.empty()) {
    return Condition{.type = api::kWorkersReady,
                     .status = ConditionStatus::kFalse,
                     .reason = api::kReasonUnschedulable,
                     .message = pod.name +
                                " cannot be scheduled: " + WhyUnschedulable(pod.unschedulable) +
                                HowToSchedule(pod, nodes, job)};
  }
  if (IsNormalWait(pod.container.waiting_reason)) {
    if (slow.asked != pod.uid || slow.warning.empty()) return std::nullopt;
    return Condition{.type = api::kWorkersReady,
                     .status = ConditionStatus::kFalse,
                     .reason = api::kReasonPodNotStarting,
                     .message = pod.name + " on node " + pod.node + " does not start: " +
                                slow.warning + HowToMount(slow.warning, job.ns)};
  }
  return Condition{.type = api::kWorkersReady,
                   .status = ConditionStatus::kFalse,
                   .reason = pod.container.waiting_reason,
                   .message = pod.name + (pod.node.empty() ? "" : " on node " + pod.node) + " " +
                              WhyNotStarted(pod.container) +
                              HowToPull(pod.container, job.spec.image)};
}

std::optional<Condition> TroubleWithPods(const api::TrainingJob& job, const Observed& observed,
                                         const SlowStart& slow) {
  if (observed.launcher != nullptr && !observed.launcher->deleting) {
    if (auto trouble = TroubleOf(job, *observed.launcher, observed.nodes, slow)) return trouble;
  }
  for (const PodPtr& worker : observed.live) {
    if (auto trouble = TroubleOf(job, *worker, observed.nodes, slow)) return trouble;
  }
  return std::nullopt;
}

std::optional<Condition> TroubleWithPreflight(const Observed& observed,
                                              const control::LauncherStatus& answer) {
  std::unordered_map<std::string_view, const control::PreflightFault*> faults;
  for (const control::WorkerReport& worker : answer.workers) {
    if (!worker.faults.empty()) faults.emplace(worker.pod_uid, &worker.faults.front());
  }
  if (faults.empty()) return std::nullopt;
  for (const PodPtr& pod : observed.live) {
    const auto fault = faults.find(pod->uid);
    if (fault == faults.end()) continue;
    return Condition{.type = api::kWorkersReady,
                     .status = ConditionStatus::kFalse,
                     .reason = control::kReasonPreflightFailed,
                     .message = pod->name + (pod->node.empty() ? "" : " on node " + pod->node) +
                                " failed its " + fault->second->check +
                                " check: " + fault->second->message};
  }
  return std::nullopt;
}

Condition NotReady(const char* reason, std::string message) {
  return {.type = api::kWorkersReady,
          .status = ConditionStatus::kFalse,
          .reason = reason,
          .message = std::move(message)};
}

bool Runs(const PodPtr& pod) { return pod != nullptr && pod->phase == PodPhase::kRunning; }

// Returns the condition if a launcher that runs has been silent for too long.
std::optional<Condition> LongSilence(const PodPtr& pod, const LauncherView* launcher,
                                     const std::string& held, Clock::Time now) {
  if (!Runs(pod) || launcher == nullptr || !launcher->silent_since ||
      now - *launcher->silent_since <= kTellSilenceAfter) {
    return std::nullopt;
  }
  if (launcher->has_newer_order) {
    return NotReady(api::kReasonLauncherUnreachable,
                    pod->name +
                        " refuses the operator's orders, because it has newer orders of another "
                        "operator; if no other operator manages the job, restart the operator");
  }
  return NotReady(api::kReasonLauncherUnreachable,
                  pod->name + " at " + pod->ip +
                      " does not answer the operator; check its log and the NetworkPolicies "
                      "between the operator and port 8471 of the Pod" +
                      (held.empty() ? std::string() : ". " + held));
}

// Returns the condition of a job whose launcher has not answered. Returns nothing right after the
// operator's start, to keep the `old` condition until the launcher has been polled.
std::optional<Condition> NoAnswerYet(const PodPtr& pod, const LauncherView* launcher,
                                     const Condition* old) {
  if (!Runs(pod)) return NotReady(api::kReasonWaitingForPods, "the launcher's Pod is starting");
  const bool about_launcher = old != nullptr && old->reason != api::kReasonCreating &&
                              old->reason != api::kReasonWaitingForPods;
  if (launcher == nullptr && about_launcher) return std::nullopt;
  return NotReady(api::kReasonWaitingForLauncher, "the launcher has not answered yet");
}

// Returns a text about the crashes since the last step; empty if they do not block the job. In mode
// Restart, a program reports no steps, so it is assumed to make progress while it runs.
std::string CrashesText(const api::TrainingJob& job, const control::LauncherStatus* answer,
                        const api::TrainingJobStatus& status) {
  const bool runs = answer != nullptr && answer->phase == control::LauncherPhase::kRunning;
  if (runs && !job.spec.InPlace()) return "";
  return CrashText(job, status);
}

}  // namespace

void CountWorkers(const Observed& observed, const control::LauncherStatus& answer,
                  api::WorkerCounts& workers) {
  std::set<std::string_view> leaving;
  for (const PodPtr& pod : observed.live) {
    if (!pod->leaving.empty()) leaving.insert(pod->uid);
  }
  workers.ready = workers.members = 0;
  // A paused job has no world; its launcher still reports the members of its last world.
  const bool has_world = answer.phase != control::LauncherPhase::kPaused;
  for (const control::WorkerReport& worker : answer.workers) {
    workers.ready += worker.ready && !leaving.contains(worker.pod_uid) ? 1 : 0;
    workers.members += worker.member && has_world ? 1 : 0;
  }
  workers.ready = std::min(workers.ready, workers.desired);
}

std::optional<Condition> JudgeReady(const ReadyInput& input, const api::TrainingJobStatus& status) {
  const Observed& observed = input.observed;
  const LauncherView* launcher = input.launcher;
  const PodsOutlook& outlook = input.outlook;
  const api::WorkerCounts& workers = status.workers;
  if (input.refusal) return NotReady(ReasonOf(input.refusal->cause), input.refusal->message);
  if (auto trouble = TroubleWithPods(input.job, observed, input.slow_start)) return trouble;
  const control::LauncherStatus* answer =
      launcher != nullptr && launcher->status ? &*launcher->status : nullptr;
  if (std::string crashes = CrashesText(input.job, answer, status); !crashes.empty()) {
    return NotReady(CrashReason(status).c_str(), std::move(crashes));
  }
  if (outlook.back_off.count() > 0) {
    return NotReady(
        api::kReasonBackOff,
        "Pods of this job failed repeatedly (status.failures); waiting before the next attempt");
  }
  if (!outlook.complete) {
    return NotReady(api::kReasonCreating, "Pods are being created");
  }
  if (auto silence = LongSilence(observed.launcher, launcher, outlook.launcher_held, input.now)) {
    return silence;
  }
  if (answer == nullptr) {
    return NoAnswerYet(observed.launcher, launcher,
                       api::FindCondition(status.conditions, api::kWorkersReady));
  }
  if (auto trouble = TroubleWithPreflight(observed, *answer)) return trouble;
  const std::string counted = ReadyOf(workers.ready, workers.desired);
  if (workers.ready < workers.desired && !outlook.unreachable.empty()) {
    return NotReady(api::kReasonNodesUnreachable, counted + "; " + outlook.unreachable);
  }
  if (workers.ready < workers.desired) {
    return NotReady(api::kReasonWaitingForPods,
                    answer->message.empty() ? counted : counted + "; " + answer->message);
  }
  return Condition{.type = api::kWorkersReady,
                   .status = ConditionStatus::kTrue,
                   .reason = api::kReasonWorkersReady,
                   .message = counted};
}

}  // namespace ringmaster::job
