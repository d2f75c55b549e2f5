#include "operator/job/planner/suspend_plan.h"

#include <algorithm>
#include <optional>
#include <string>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/reports.h"
#include "operator/job/planner/describe_status.h"
#include "operator/job/policy/protection_policy.h"

namespace ringmaster::job {

namespace {

constexpr char kDeletingPods[] = "the Pods are being deleted";

bool OrderedToStop(const PlanInput& input) {
  return input.launcher->order != nullptr && input.launcher->order->replicas == 0;
}

// Returns true if, according to the launcher, none of the job's ranks train any more.
bool RanksHaveEnded(const PlanInput& input) {
  const Observed& seen = input.observed;
  const bool no_launcher =
      seen.launcher == nullptr || seen.launcher->deleting || seen.launcher->Ended();
  if (no_launcher || seen.live.empty()) return true;
  const control::LauncherStatus* answer = AnswerOf(input);
  const bool has_world =
      input.job.status.epoch > 0 || (answer != nullptr && answer->epoch.number > 0);
  if (!has_world) return true;
  if (answer == nullptr || !OrderedToStop(input)) return false;
  const Reports reports(input);
  return std::none_of(seen.live.begin(), seen.live.end(), [&](const PodPtr& worker) {
    const control::WorkerReport* report = reports.Find(worker->uid);
    return report != nullptr && report->member && !report->drained && !report->fenced;
  });
}

std::chrono::milliseconds TimeLeft(Clock::Time since, std::chrono::milliseconds limit,
                                   Clock::Time now) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(since + limit - now);
  return std::max(std::chrono::milliseconds(0), left);
}

bool KeepsCheckpoints(const api::TrainingJobSpec& spec) {
  return spec.checkpoint && spec.InPlace();
}

// Returns true while the launcher forms a new world. That world needs a new checkpoint request.
bool IsBetweenWorlds(control::LauncherPhase phase) {
  return phase == control::LauncherPhase::kForming || phase == control::LauncherPhase::kAdopting ||
         phase == control::LauncherPhase::kStarting;
}

int64_t StepOf(const api::TrainingJobStatus& status) {
  return status.progress ? status.progress->step : 0;
}

// Returns the step that the checkpoint of this suspension must reach, to keep all earlier steps.
// Returns nothing if that checkpoint is complete or must not be expected.
std::optional<int64_t> CheckpointToAwait(const PlanInput& input, std::chrono::milliseconds left) {
  const api::TrainingJobSpec& spec = input.job.spec;
  const control::LauncherStatus* answer = AnswerOf(input);
  if (!KeepsCheckpoints(spec) || answer == nullptr || OrderedToStop(input) || left.count() == 0) {
    return std::nullopt;
  }
  const bool changing = IsBetweenWorlds(answer->phase);
  if (!changing && (answer->phase != control::LauncherPhase::kRunning || !answer->progress)) {
    return std::nullopt;
  }
  const auto& memory = input.memory.suspension;
  const int64_t step = answer->progress ? answer->progress->step : StepOf(input.job.status);
  const int64_t begin = memory ? memory->step : step;
  const bool kept = answer->checkpoint && answer->checkpoint->step >= begin;
  const bool failing = CheckpointsFail(answer->unprotected);
  const bool ending = memory && memory->ending_since;
  if (kept || failing || ending || begin == 0) return std::nullopt;
  return begin;
}

// Returns a text about the state from which the job will resume.
std::string WhatIsKept(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  if (job.status.launcher_term == 0) return "it has not run yet";
  if (!job.spec.InPlace()) {
    return "its program will resume from the state that it saved";
  }
  if (status.checkpoint) {
    return "it will resume from the checkpoint of step " + std::to_string(status.checkpoint->step);
  }
  return job.spec.checkpoint
             ? "it will resume from the latest complete checkpoint on its volume, if there is one"
             : "it has no spec.checkpoint, so it will restart from its first step";
}

// Returns an order with which the existing workers continue to train.
control::Order OrderToContinue(const PlanInput& input) {
  control::Order order;
  order.replicas = input.job.spec.worker.replicas;
  order.min_replicas = input.job.spec.MinReplicas();
  for (const PodPtr& worker : input.observed.live) {
    if (!worker->leaving.empty()) continue;
    order.workers.push_back({.pod_uid = worker->uid,
                             .pod = worker->name,
                             .node = worker->node,
                             .index = worker->index});
  }
  return order;
}

// Returns an order without workers, with which the ranks stop.
control::Order OrderToStop() {
  control::Order order;
  order.replicas = order.min_replicas = 0;
  return order;
}

// Returns how much longer to wait for the program of a job in mode Restart to end in Pods that are
// being deleted: a resumed job's program would write the same files.
std::optional<std::chrono::milliseconds> WaitForProgram(const PlanInput& input) {
  const std::vector<PodPtr>& pods = input.observed.deleting;
  const bool runs = std::any_of(pods.begin(), pods.end(), [](const PodPtr& pod) {
    return pod->phase == PodPhase::kRunning && !pod->Ended();
  });
  if (!runs || input.job.spec.InPlace() || IsSuspended(input.job.status)) return std::nullopt;
  const auto grace = input.job.spec.fault_tolerance.stop_grace.value_or(std::chrono::seconds(0));
  const auto& memory = input.memory.suspension;
  const Clock::Time since = memory ? memory->ending_since.value_or(input.now) : input.now;
  const auto left = TimeLeft(since, 2 * kSuspendLimit + grace, input.now);
  return left.count() > 0 ? std::optional(left) : std::nullopt;
}

void PlanSuspension(const PlanInput& input, const std::vector<PodPtr>& pods, Plan& plan) {
  const SuspensionMemory memory =
      input.memory.suspension.value_or(SuspensionMemory{.since = input.now, .ending_since = {}});
  const auto for_checkpoint = TimeLeft(memory.since, kCheckpointLimit, input.now);
  const auto for_ranks =
      TimeLeft(memory.ending_since.value_or(input.now), kSuspendLimit, input.now);
  if (!memory.ending_since && KeepsCheckpoints(input.job.spec) && !input.observed.live.empty() &&
      NotAskedYet(input)) {
    plan.order = OrderToContinue(input);
    plan.order->checkpoint = true;
    plan.RequeueWithin(kAskFirst);
    return DescribeSuspending(input, "waiting for the launcher to report the training progress",
                              plan.status);
  }
  const bool over = RanksHaveEnded(input) || for_ranks.count() == 0;
  const auto checkpoint = over ? std::nullopt : CheckpointToAwait(input, for_checkpoint);
  if (checkpoint) {
    plan.suspending = Suspending::kAwaitingCheckpoint;
    plan.order = OrderToContinue(input);
    plan.order->checkpoint = true;
    plan.RequeueWithin(for_checkpoint);
    return DescribeSuspending(input,
                              "waiting for a checkpoint of step " + std::to_string(*checkpoint) +
                                  " or later; then the ranks are stopped and the Pods deleted",
                              plan.status);
  }
  plan.suspending = Suspending::kEnding;
  const PodPtr& launcher = input.observed.launcher;
  if (launcher != nullptr && !launcher->Ended() && !launcher->ip.empty()) {
    plan.order = OrderToStop();
  }
  if (!over) {
    plan.RequeueWithin(for_ranks);
    return DescribeSuspending(input, "the ranks are being stopped; then the Pods are deleted",
                              plan.status);
  }
  // The Pod of the first term may exist before the status contains the term. A term must not be
  // used twice, so write the status before the Pod is deleted.
  const int64_t term = launcher == nullptr ? 0 : launcher->term;
  plan.status.launcher_term = std::max(plan.status.launcher_term, term);
  if (plan.status.launcher_term == input.job.status.launcher_term) {
    for (const PodPtr& pod : pods) plan.Delete(*pod);
  }
  DescribeSuspending(input, kDeletingPods, plan.status);
}

}  // namespace

bool IsSuspended(const api::TrainingJobStatus& status) {
  return api::IsTrue(status.conditions, api::kSuspended);
}

bool MustBeSuspended(const api::TrainingJob& job) {
  if (job.spec.suspend) return true;
  const api::Condition* condition = api::FindCondition(job.status.conditions, api::kSuspended);
  return condition != nullptr && condition->reason == api::kReasonSuspending;
}

Plan MakeSuspendPlan(const PlanInput& input) {
  Plan plan;
  plan.status = input.job.status;
  DescribeCounts(input, plan.status);
  const auto* answer = AnswerOf(input);
  if (answer != nullptr) DescribeKept(input, *answer, plan.status);
  // The status may not say yet that training began.
  if (answer != nullptr &&
      (answer->phase == control::LauncherPhase::kRunning || answer->progress)) {
    plan.status.has_trained = true;
  }
  const std::vector<PodPtr> pods = input.observed.PodsToDelete();
  if (!pods.empty()) {
    PlanSuspension(input, pods, plan);
    return plan;
  }
  if (const auto left = WaitForProgram(input)) {
    plan.suspending = Suspending::kEnding;
    plan.RequeueWithin(*left);
    DescribeSuspending(input, kDeletingPods, plan.status);
    return plan;
  }
  plan.unpin = input.memory.pin.has_value();
  DescribeSuspended(input, WhatIsKept(input.job, plan.status), plan.status);
  if (!IsSuspended(input.job.status)) {
    plan.AddEvent(false, api::kEventSuspended, api::kActionSuspend,
                  api::FindCondition(plan.status.conditions, api::kSuspended)->message);
  }
  return plan;
}

void PlanResumption(const PlanInput& input, Plan& plan) {
  if (!IsSuspended(input.job.status)) return;
  DescribeResumed(input, plan.status);
  plan.AddEvent(
      false, api::kEventResumed, api::kActionResume,
      "spec.suspend is false again, so Pods are created; " + WhatIsKept(input.job, plan.status));
}

}  // namespace ringmaster::job
