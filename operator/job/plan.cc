#include "operator/job/plan.h"

#include <algorithm>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/replacement_policy.h"
#include "operator/job/status_policy.h"
#include "operator/job/verdict_policy.h"

namespace ringmaster::job {

namespace {

// Progress alone is written this often; anything else that changes is written at once.
constexpr auto kProgressPeriod = std::chrono::seconds(10);
// Workers of a finished job end by themselves when the launcher says so; those that do not are
// deleted after this.
constexpr auto kSelfEndGrace = std::chrono::seconds(3);

std::chrono::milliseconds CeilMillis(Clock::Time::duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration);
}

PodDelete DeleteOf(const PodView& pod) { return {.name = pod.name, .uid = pod.uid}; }

void AddEvent(Plan& plan, bool warning, const char* reason, const char* action, std::string note) {
  plan.events.push_back(
      {.warning = warning, .reason = reason, .action = action, .note = std::move(note)});
}

std::string Ended(const PodView& pod) {
  const ContainerView& container = pod.container;
  std::string text = pod.name + (pod.node.empty() ? "" : " on node " + pod.node) + " ended";
  if (container.terminated) {
    text += container.signal > 0 ? " by signal " + std::to_string(container.signal)
                                 : " with exit code " + std::to_string(container.exit_code);
    if (!container.ended_reason.empty()) text += " (" + container.ended_reason + ")";
  } else if (!pod.reason.empty()) {
    text += " (" + pod.reason + (pod.message.empty() ? "" : ": " + pod.message) + ")";
  }
  return text;
}

// Builds the plan of a job that goes on, one concern after the other.
class LivePlanner {
 public:
  explicit LivePlanner(const PlanInput& input)
      : in_(input), job_(input.job), seen_(input.observed) {}

  Plan Make();

 private:
  void RecordFailures();
  void PlanLauncher();
  void PlanWorkers();
  void PlanServices();
  void PlanOrder();
  void Describe();
  void AddEvents();

  // Workers that finished under the present launcher: it told them to end, and its verdict is on
  // the way.
  bool FinishedUnderPresentLauncher(const PodView& worker) const;
  // Creates wait for what refused them the last time.
  bool MayCreate() const { return !in_.memory.refusal || in_.memory.refusal->retry_at <= in_.now; }
  void WaitForBackOff(std::chrono::milliseconds delay) {
    outlook_.back_off = std::max(outlook_.back_off, delay);
    plan_.RequeueWithin(delay);
  }

  const PlanInput& in_;
  const api::TrainingJob& job_;
  const Observed& seen_;
  Plan plan_;
  PodsOutlook outlook_;
  bool launcher_ok_ = false;
  int64_t term_ = 0;  // that the launcher has, or will have after this plan
  std::vector<PodPtr>
      kept_;  // workers that count: live ones, and finished ones that wait for the verdict
  int missing_ = 0;
};

bool LivePlanner::FinishedUnderPresentLauncher(const PodView& worker) const {
  return launcher_ok_ && worker.container.finished_at > seen_.launcher->created_at;
}

void LivePlanner::RecordFailures() {
  const std::string now = FormatTime(in_.wall_now);
  const PodPtr& launcher = seen_.launcher;
  if (launcher != nullptr && launcher->Ended()) {
    api::Failure failure = FailureOf(*launcher, now);
    failure.reason = api::kReasonLauncherLost;
    if (AddFailure(plan_.status.failures, std::move(failure))) {
      AddEvent(plan_, true, api::kEventLauncherReplaced, api::kActionReplace,
               Ended(*launcher) + " without a verdict; a new launcher takes over");
    }
  }
  for (const PodPtr& worker : seen_.failed) {
    if (AddFailure(plan_.status.failures, FailureOf(*worker, now))) {
      AddEvent(plan_, true, api::kEventWorkerReplaced, api::kActionReplace,
               Ended(*worker) + "; another worker takes its place");
    }
    plan_.deletes.push_back(DeleteOf(*worker));
  }
}

void LivePlanner::PlanLauncher() {
  const PodPtr& launcher = seen_.launcher;
  launcher_ok_ = launcher != nullptr && !launcher->deleting && !launcher->Ended();
  term_ = job_.status.launcher_term;
  outlook_.launcher_lost = !launcher_ok_;
  // Launchers of earlier terms have nothing to say any more. One that is being deleted already
  // needs no second order.
  for (const PodPtr& old : seen_.old_launchers) {
    if (!old->deleting && !old->Ended()) plan_.deletes.push_back(DeleteOf(*old));
  }
  if (launcher_ok_) return;
  const auto delay = ReplacementDelay(plan_.status.failures, FailedRole::kLauncher, in_.wall_now);
  if (delay.count() > 0) return WaitForBackOff(delay);
  if (!MayCreate()) return;
  const bool unused = launcher == nullptr && in_.memory.unused_term > 0 &&
                      in_.memory.unused_term == job_.status.launcher_term;
  if (!unused) {
    plan_.raise_term = seen_.next_term;
    term_ = seen_.next_term;
  }
  plan_.create_launcher = term_;
}

void LivePlanner::PlanWorkers() {
  kept_ = seen_.live;
  for (const PodPtr& worker : seen_.completed) {
    if (!launcher_ok_ || FinishedUnderPresentLauncher(*worker)) {
      kept_.push_back(worker);
    } else {
      plan_.deletes.push_back(DeleteOf(*worker));
    }
  }
  const int wanted = job_.spec.worker.replicas;
  missing_ = wanted - static_cast<int>(kept_.size());
  for (auto extra = seen_.live.rbegin(); missing_ < 0 && extra != seen_.live.rend(); ++extra) {
    plan_.deletes.push_back(DeleteOf(**extra));
    std::erase(kept_, *extra);
    ++missing_;
  }
  if (missing_ <= 0) return;
  const auto delay = ReplacementDelay(plan_.status.failures, FailedRole::kWorker, in_.wall_now);
  if (delay.count() > 0) return WaitForBackOff(delay);
  if (!MayCreate()) return;
  const auto count = std::min(static_cast<std::size_t>(missing_), seen_.free_indices.size());
  plan_.create_workers.assign(seen_.free_indices.begin(),
                              seen_.free_indices.begin() + static_cast<std::ptrdiff_t>(count));
}

void LivePlanner::PlanServices() {
  const bool missing = seen_.worker_service == nullptr || seen_.launcher_service == nullptr;
  plan_.create_services = missing && MayCreate();
  if (seen_.launcher_service != nullptr && seen_.launcher_service->term != term_) {
    plan_.point_service_at = term_;
  }
  outlook_.complete = !missing && launcher_ok_ && missing_ == 0;
  if (in_.memory.refusal && !MayCreate()) {
    plan_.RequeueWithin(CeilMillis(in_.memory.refusal->retry_at - in_.now));
  }
}

void LivePlanner::PlanOrder() {
  if (!launcher_ok_ || seen_.launcher->ip.empty()) return;
  control::Order order;
  order.replicas = job_.spec.worker.replicas;
  order.min_replicas = job_.spec.MinReplicas();
  for (const PodPtr& worker : kept_) {
    order.workers.push_back({.pod_uid = worker->uid,
                             .pod = worker->name,
                             .node = worker->node,
                             .index = worker->index});
  }
  plan_.order = std::move(order);
}

void LivePlanner::Describe() {
  if (plan_.raise_term) plan_.status.launcher_term = *plan_.raise_term;
  DescribeLive(in_, outlook_, plan_.status);
}

void LivePlanner::AddEvents() {
  const auto& old = job_.status;
  const auto became = [&](const char* type) {
    return api::IsTrue(plan_.status.conditions, type) && !api::IsTrue(old.conditions, type);
  };
  const bool was_created = api::IsTrue(old.conditions, api::kCreated);
  if (became(api::kCreated)) {
    AddEvent(plan_, false, api::kEventCreated, api::kActionCreate,
             api::FindCondition(plan_.status.conditions, api::kCreated)->message);
  }
  if (was_created && old.workers.desired > 0 && old.workers.desired != job_.spec.worker.replicas) {
    AddEvent(plan_, false, api::kEventResized, api::kActionCreate,
             "from " + std::to_string(old.workers.desired) + " to " +
                 std::to_string(job_.spec.worker.replicas) + " workers");
  } else if (was_created && !plan_.create_workers.empty() && seen_.failed.empty() &&
             old.workers.replicas > static_cast<int>(seen_.live.size())) {
    AddEvent(
        plan_, true, api::kEventWorkerReplaced, api::kActionReplace,
        std::to_string(plan_.create_workers.size()) + " worker Pod(s) are gone; new ones are made");
  }
  if (became(api::kRunning)) {
    AddEvent(plan_, false, api::kEventRunning, api::kActionTrain,
             api::FindCondition(plan_.status.conditions, api::kRunning)->message);
  }
  // Refusals and Pods that cannot go on: what a person has to do something about.
  const api::Condition* ready = api::FindCondition(plan_.status.conditions, api::kReady);
  const api::Condition* before = api::FindCondition(old.conditions, api::kReady);
  static const std::set<std::string> kQuiet{api::kReasonCreating, api::kReasonWaitingForPods,
                                            api::kReasonWaitingForLauncher,
                                            api::kReasonWorkersReady};
  if (ready != nullptr && (before == nullptr || before->reason != ready->reason) &&
      !kQuiet.contains(ready->reason)) {
    AddEvent(plan_, true, ready->reason.c_str(), api::kActionWait, ready->message);
  }
}

Plan LivePlanner::Make() {
  plan_.status = job_.status;
  RecordFailures();
  PlanLauncher();
  PlanWorkers();
  PlanServices();
  PlanOrder();
  Describe();
  AddEvents();
  return std::move(plan_);
}

// What is left of a job that has ended: Pods that still run are deleted, ended ones stay for their
// logs.
void PlanCleanUp(const PlanInput& input, Plan& plan) {
  std::vector<PodPtr> running = input.observed.live;
  if (input.observed.launcher != nullptr) running.push_back(input.observed.launcher);
  running.insert(running.end(), input.observed.old_launchers.begin(),
                 input.observed.old_launchers.end());
  std::erase_if(running, [](const PodPtr& pod) { return pod->deleting || pod->Ended(); });
  if (running.empty()) return;
  const auto waited = input.memory.ended_since ? input.now - *input.memory.ended_since
                                               : Clock::Time::duration::zero();
  if (waited < kSelfEndGrace) return plan.RequeueWithin(CeilMillis(kSelfEndGrace - waited));
  for (const PodPtr& pod : running) plan.deletes.push_back(DeleteOf(*pod));
}

Plan PlanTheEnd(const PlanInput& input, const Outcome& outcome) {
  Plan plan;
  plan.status = input.job.status;
  if (outcome.failure) AddFailure(plan.status.failures, *outcome.failure);
  DescribeOutcome(input, outcome, plan.status);
  AddEvent(plan, !outcome.succeeded,
           outcome.succeeded ? api::kEventSucceeded : outcome.reason.c_str(), api::kActionFinish,
           outcome.message);
  PlanCleanUp(input, plan);
  return plan;
}

Plan PlanAfterTheEnd(const PlanInput& input) {
  Plan plan;
  plan.status = input.job.status;
  DescribeCounts(input, plan.status);
  PlanCleanUp(input, plan);
  return plan;
}

void DecideStatusWrite(const PlanInput& input, Plan& plan) {
  const api::TrainingJobStatus& old = input.job.status;
  if (plan.status == old) return;
  api::TrainingJobStatus without_progress = plan.status;
  without_progress.progress = old.progress;
  const bool progress_alone = without_progress == old;
  const auto& written = input.memory.progress_written;
  if (progress_alone && written && input.now - *written < kProgressPeriod) {
    plan.RequeueWithin(CeilMillis(kProgressPeriod - (input.now - *written)));
    return;
  }
  plan.write_status = true;
}

std::optional<Outcome> Judge(const PlanInput& input) {
  auto outcome = JudgeOutcome(input.violations, input.observed, FormatTime(input.wall_now));
  if (outcome || !input.memory.refusal || !input.memory.refusal->user_error) return outcome;
  return Outcome{.succeeded = false,
                 .reason = input.memory.refusal->reason,
                 .message = input.memory.refusal->message,
                 .verdict = std::nullopt,
                 .failure = std::nullopt};
}

}  // namespace

Plan MakePlan(const PlanInput& input) {
  Plan plan;
  if (api::IsTerminal(input.job.status)) {
    plan = PlanAfterTheEnd(input);
  } else if (const auto outcome = Judge(input)) {
    plan = PlanTheEnd(input, *outcome);
  } else {
    plan = LivePlanner(input).Make();
  }
  DecideStatusWrite(input, plan);
  return plan;
}

}  // namespace ringmaster::job
