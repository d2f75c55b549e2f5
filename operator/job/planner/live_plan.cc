#include "operator/job/planner/live_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/control/reasons.h"
#include "common/control/verdict.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/reports.h"
#include "operator/job/planner/describe_status.h"
#include "operator/job/planner/isolation_plan.h"
#include "operator/job/planner/suspend_plan.h"
#include "operator/job/policy/crash_policy.h"
#include "operator/job/policy/event_policy.h"
#include "operator/job/policy/launcher_policy.h"
#include "operator/job/policy/leave_policy.h"
#include "operator/job/policy/loss_policy.h"
#include "operator/job/policy/node_policy.h"
#include "operator/job/policy/pod_events.h"
#include "operator/job/policy/replacement_policy.h"
#include "operator/job/policy/restart_policy.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

namespace {

// The retry interval of a blocked action, which an event of another job may unblock.
constexpr auto kLookAgainWhileHeld = std::chrono::seconds(5);
// The time after which the launcher is expected to report again which workers are needed.
constexpr auto kAskAgainForLeavers = std::chrono::seconds(1);

// Computes the plan step by step: each method handles one task.
class LivePlanner {
 public:
  explicit LivePlanner(const PlanInput& input)
      : in_(input),
        job_(input.job),
        seen_(input.observed),
        reports_(input),
        now_text_(FormatTime(input.wall_now)) {}

  Plan Make();

 private:
  void RecordEndedPods();
  void RecordRankFailures();
  void PlanLauncher();
  void ReplaceLauncher();
  void SortWorkers();
  void PlanLeaver(const PodPtr& worker);
  void ReplaceLost(const LostWorker& lost);
  void AddLossEvent(const char* reason, std::string note);
  void AddEventOfOtherLosses();
  void ShrinkOrGrow();
  void PlanServices();
  void PlanOrder();
  // Returns true if the current launcher asked the worker to end, so that a verdict will follow.
  // REQUIRES: launcher_ok_.
  bool FinishedUnderPresentLauncher(const PodView& worker) const;
  // Returns true if the worker ended before the job, because another client asked it to exit.
  bool LeftEarly(const PodView& worker) const;
  // Returns false during the back-off after a refusal, in which nothing is created.
  bool MayCreate() const { return !in_.memory.refusal || in_.memory.refusal->retry_at <= in_.now; }
  void WaitForBackOff(std::chrono::milliseconds delay) {
    outlook_.back_off = std::max(outlook_.back_off, delay);
    plan_.RequeueWithin(delay);
  }

  const PlanInput& in_;
  const api::TrainingJob& job_;
  const Observed& seen_;
  const Reports reports_;
  const std::string now_text_;
  Plan plan_;
  PodsOutlook outlook_;
  bool launcher_ok_ = false;
  int64_t term_ = 0;  // the launcher's term after this plan
  // Workers in use: live ones that do not leave, and finished ones that wait for the verdict.
  std::vector<PodPtr> kept_;
  int missing_ = 0;
  std::size_t losses_ = 0;  // number of workers whose loss this plan reports
};

bool LivePlanner::FinishedUnderPresentLauncher(const PodView& worker) const {
  const control::WorkerReport* report = reports_.Find(worker.uid);
  // The launcher's report takes precedence, because the kubelet's clock may be wrong.
  return (report != nullptr && report->member) ||
         worker.container.finished_at > seen_.launcher->created_at;
}

bool LivePlanner::LeftEarly(const PodView& worker) const {
  const control::WorkerReport* report = reports_.Find(worker.uid);
  return report != nullptr && (report->drained || report->fenced) &&
         reports_.answer()->phase != control::LauncherPhase::kFinished;
}

void LivePlanner::RecordEndedPods() {
  const PodPtr& launcher = seen_.launcher;
  // Ignore a launcher that a suspension has ended.
  if (launcher != nullptr && launcher->Ended() && !IsSuspended(job_.status)) {
    api::Failure failure = FailureOf(*launcher, now_text_);
    const bool memory = failure.reason == control::kReasonOOMKilled;
    failure.reason = memory ? api::kReasonLauncherOOMKilled : api::kReasonLauncherLost;
    if (AddFailure(plan_.status.failures, std::move(failure))) {
      if (HasCrashed(*launcher)) {
        CountCrashedPod(job_, reports_.answer(), in_.wall_now, plan_.status);
      }
      plan_.AddEvent(
          true, memory ? control::kReasonOOMKilled : api::kEventLauncherReplaced,
          api::kActionReplace,
          memory
              ? FailureText(plan_.status.failures.front()) + ". A new launcher takes over"
              : HowItEnded(*launcher) + " without reporting a result; a new launcher takes over");
    }
  }
  for (const PodPtr& worker : seen_.failed) {
    if (!plan_.Delete(*worker)) break;
    if (AddFailure(plan_.status.failures, FailureOf(*worker, now_text_))) {
      outlook_.worker_lost = true;
      if (HasCrashed(*worker)) {
        CountCrashedPod(job_, reports_.answer(), in_.wall_now, plan_.status);
      }
      const api::Failure& failure = plan_.status.failures.front();
      const bool known = failure.reason == control::kReasonOOMKilled ||
                         failure.reason == api::kReasonDeviceUnhealthy;
      AddLossEvent(known ? failure.reason.c_str() : api::kEventWorkerReplaced,
                   known ? FailureText(failure) + ". Another worker replaces it"
                         : HowItEnded(*worker) + "; another worker replaces it");
    }
  }
  for (const PodPtr& worker : seen_.of_other_text) plan_.Delete(*worker);
}

// Reports out-of-memory failures immediately, and other exits only if the job does not continue.
void LivePlanner::RecordRankFailures() {
  const auto* answer = reports_.answer();
  if (answer == nullptr) return;
  std::vector<api::Failure>& failures = plan_.status.failures;
  const auto added =
      static_cast<std::ptrdiff_t>(AddRankFailures(answer->failures, now_text_, failures));
  const auto memory = [](const api::Failure& failure) {
    return failure.reason == control::kReasonOOMKilled;
  };
  const auto newest = std::find_if(failures.begin(), failures.begin() + added, memory);
  if (newest == failures.begin() + added) return;
  plan_.AddEvent(true, control::kReasonOOMKilled, api::kActionReplace,
                 FailureText(*newest) + ". It is restarted");
  plan_.events.back().of_status = true;
}

void LivePlanner::PlanLauncher() {
  const PodPtr& launcher = seen_.launcher;
  launcher_ok_ = launcher != nullptr && !launcher->deleting && !launcher->Ended();
  term_ = job_.status.launcher_term;
  // The Pod of the first term may exist before the status contains the term.
  if (launcher != nullptr) term_ = std::max(term_, launcher->term);
  // Delete the launchers of earlier terms, which are obsolete, unless they are already being
  // deleted.
  for (const PodPtr& old : seen_.old_launchers) {
    if (!old->deleting && !old->Stopped()) plan_.Delete(*old);
  }
  const LauncherHearing hearing{.own = PresentLauncher(in_),
                                .answered_earlier = job_.status.world_size > 0,
                                .all = in_.launchers};
  const LauncherCheck check = CheckLauncher(seen_, in_.memory.nodes, hearing, in_.now);
  if (check.again) plan_.RequeueWithin(*check.again);
  plan_.launcher_held = outlook_.launcher_held = check.held;
  if (launcher_ok_ && check.lost.empty()) return;
  const auto delay = ReplacementDelay(plan_.status.failures, FailedRole::kLauncher, in_.wall_now);
  outlook_.launcher_lost = !launcher_ok_;
  // Keep a silent launcher during the back-off, because it may answer again.
  if (delay.count() > 0) return WaitForBackOff(delay);
  if (!MayCreate()) return;
  if (launcher_ok_) {
    launcher_ok_ = false;
    outlook_.launcher_lost = true;
    api::Failure failure = FailureOf(*launcher, now_text_);
    failure.reason = api::kReasonLauncherLost;
    failure.last_lines = {check.lost};
    AddFailure(plan_.status.failures, std::move(failure));
    plan_.AddEvent(true, api::kEventLauncherReplaced, api::kActionReplace,
                   check.lost + "; a new launcher takes over");
    plan_.EndLauncher(*launcher);
  }
  ReplaceLauncher();
}

void LivePlanner::ReplaceLauncher() {
  const PodPtr& launcher = seen_.launcher;
  const bool unused = launcher == nullptr && in_.memory.unused_term > 0 &&
                      in_.memory.unused_term == job_.status.launcher_term;
  const bool deleted = launcher == nullptr || (launcher->deleting && !launcher->Ended());
  if (deleted && !unused && job_.status.launcher_term > 0 && !IsSuspended(job_.status)) {
    const std::string name = api::LauncherPodName(job_.name, job_.status.launcher_term);
    const bool disrupted = launcher != nullptr && !launcher->disruption.empty();
    // A create whose result is not known may have failed, so there may never have been a Pod.
    const std::string how = disrupted ? " is being disrupted (" + launcher->disruption + ")"
                            : launcher == nullptr ? " does not exist"
                                                  : " was deleted";
    const std::string node =
        launcher == nullptr || launcher->node.empty() ? "" : " on node " + launcher->node;
    plan_.AddEvent(true, api::kEventLauncherReplaced, api::kActionReplace,
                   name + node + how + "; a new launcher takes over");
  }
  if (!unused) {
    plan_.raise_term = seen_.next_term;
    term_ = seen_.next_term;
  }
  plan_.create_launcher = term_;
  BeginCountOfNextLauncher(plan_.status);
}

void LivePlanner::SortWorkers() {
  const std::vector<LostWorker> lost = FindLost(seen_, in_.memory.nodes, reports_, in_.now);
  auto next_lost = lost.begin();
  for (const PodPtr& worker : seen_.live) {
    if (next_lost != lost.end() && next_lost->pod == worker) {
      ReplaceLost(*next_lost++);
    } else if (!worker->leaving.empty()) {
      PlanLeaver(worker);
    } else {
      kept_.push_back(worker);
    }
  }
  for (const PodPtr& worker : seen_.completed) {
    if (!LeftEarly(*worker) && (!launcher_ok_ || FinishedUnderPresentLauncher(*worker))) {
      kept_.push_back(worker);
    } else {
      plan_.Delete(*worker);
    }
  }
  if (const auto again = JudgeNodesAgainIn(seen_.nodes, reports_, in_.now)) {
    plan_.RequeueWithin(*again);
  }
  outlook_.unreachable = ManyUnreachable(seen_);
  plan_.nodes_unreachable = !outlook_.unreachable.empty();
  // Nodes of other jobs count, too, but changes of them do not cause a reconcile of this job.
  if (plan_.nodes_unreachable) plan_.RequeueWithin(kLookAgainWhileHeld);
}

void LivePlanner::ReplaceLost(const LostWorker& lost) {
  if (!plan_.Delete(*lost.pod)) return;
  api::Failure failure = FailureOf(*lost.pod, now_text_);
  failure.reason = lost.reason;
  failure.last_lines = {lost.text};
  if (AddFailure(plan_.status.failures, std::move(failure))) {
    outlook_.worker_lost = true;
    AddLossEvent(api::kEventWorkerLost, lost.text + "; another worker replaces it");
  }
}

// Adds an event for a lost worker, but for only as many workers as the status can list: if a node
// pool disappears, thousands of workers end together.
void LivePlanner::AddLossEvent(const char* reason, std::string note) {
  if (losses_++ < api::kMaxFailures) {
    plan_.AddEvent(true, reason, api::kActionReplace, std::move(note));
  }
}

void LivePlanner::AddEventOfOtherLosses() {
  if (losses_ <= api::kMaxFailures) return;
  plan_.AddEvent(true, api::kEventWorkerReplaced, api::kActionReplace,
                 std::to_string(losses_ - api::kMaxFailures) +
                     " more workers ended or were lost; others replace them");
}

void LivePlanner::PlanLeaver(const PodPtr& worker) {
  const auto marked_since = in_.memory.LeavingSince(worker->uid);
  switch (JudgeLeaver(*worker, job_, reports_, marked_since, in_.now)) {
    case Leave::kWait:
      return plan_.RequeueWithin(DrainTimeLeft(marked_since, in_.now));
    case Leave::kOverdue:
      if (!plan_.Delete(*worker)) return;
      return plan_.AddEvent(true, api::kEventNotDrained, api::kActionDrain,
                            worker->name + " " + WherePodRuns(*worker, seen_.nodes) +
                                " was not drained within " + std::to_string(kDrainLimit.count()) +
                                " s; it is deleted and counts as lost");
    case Leave::kHeld:
      plan_.drain_held = true;
      if (!in_.memory.announced_drain) {
        plan_.AddEvent(true, api::kEventNotDrained, api::kActionDrain,
                       worker->name + " " + WherePodRuns(*worker, seen_.nodes) +
                           " was not drained within " + std::to_string(kDrainLimit.count()) +
                           " s; it is kept until the launcher reports that another worker trains");
      }
      return plan_.RequeueWithin(kLookAgainWhileHeld);
    case Leave::kGo:
      plan_.Delete(*worker);
  }
}

void LivePlanner::ShrinkOrGrow() {
  missing_ = job_.spec.worker.replicas - static_cast<int>(kept_.size());
  if (missing_ < 0) {
    const bool drained = job_.spec.InPlace();
    // Wait for a current report: without it, a member could be chosen instead of an idle worker.
    if (drained && job_.status.epoch > 0 && !reports_.current()) {
      missing_ = 0;
      return plan_.RequeueWithin(kAskAgainForLeavers);
    }
    std::vector<PodPtr> live = kept_;
    std::erase_if(live, [](const PodPtr& pod) { return pod->Ended(); });
    const auto leavers =
        ChooseLeavers(std::move(live), reports_, static_cast<std::size_t>(-missing_));
    for (const PodPtr& pod : leavers) {
      if (drained) {
        plan_.marks.push_back({.name = pod->name,
                               .uid = pod->uid,
                               .resource_version = pod->resource_version,
                               .reason = api::kReasonScalingDown});
      } else {
        plan_.Delete(*pod);
      }
    }
    if (!drained) {
      const std::set<PodPtr> gone(leavers.begin(), leavers.end());
      std::erase_if(kept_, [&](const PodPtr& pod) { return gone.contains(pod); });
    }
    missing_ = 0;
  }
  if (missing_ == 0) return;
  const auto delay = ReplacementDelay(plan_.status.failures, FailedRole::kWorker, in_.wall_now);
  if (delay.count() > 0) return WaitForBackOff(delay);
  if (!MayCreate()) return;
  const auto missing = static_cast<std::size_t>(missing_);
  plan_.create_workers = seen_.FreeIndices(std::min(missing, kMostPodsAtOnce));
  if (plan_.create_workers.size() < missing) plan_.RequeueImmediately();
}

void LivePlanner::PlanServices() {
  plan_.pin = !in_.memory.pin && MayCreate();
  const bool missing = seen_.worker_service == nullptr || seen_.launcher_service == nullptr;
  plan_.create_services = missing && MayCreate();
  if (seen_.launcher_service != nullptr && seen_.launcher_service->term != term_) {
    plan_.point_service_at = term_;
  }
  outlook_.complete = !missing && launcher_ok_ && missing_ == 0;
  if (!MayCreate()) {
    plan_.RequeueWithin(
        std::chrono::ceil<std::chrono::milliseconds>(in_.memory.refusal->retry_at - in_.now));
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
  order.dead = CertainlyDead(seen_, in_.memory.nodes, in_.memory.gone, reports_.answer(), kept_);
  plan_.order = std::move(order);
}

Plan LivePlanner::Make() {
  plan_.status = job_.status;
  if (plan_.status.start_time.empty()) plan_.status.start_time = now_text_;
  PlanResumption(in_, plan_);
  RecordEndedPods();
  RecordRankFailures();
  CountCrashesOfLauncher(job_, reports_.answer(), in_.wall_now, plan_.status);
  PlanLauncher();
  if (outlook_.launcher_lost) {
    ReportRestartByLauncher(job_, seen_.launcher, in_.wall_now, plan_);
  }
  SortWorkers();
  AddEventOfOtherLosses();
  ShrinkOrGrow();
  PlanServices();
  PlanIsolation(in_, MayCreate(), plan_);
  PlanOrder();
  plan_.status.launcher_term = term_;
  NextQuestion question = PodToAskAbout(seen_, in_.memory.slow_start, in_.now);
  plan_.ask_about = std::move(question.ask);
  if (question.left) plan_.RequeueWithin(*question.left);
  DescribeLive(in_, outlook_, plan_.status);
  ReportRestartInNewWorld(job_.status, in_.wall_now, plan_);
  const bool announced = in_.memory.announced_nodes;
  AddEvents(job_, seen_, in_.memory.gone, announced ? std::string() : outlook_.unreachable, plan_);
  return std::move(plan_);
}

}  // namespace

Plan MakeLivePlan(const PlanInput& input) { return LivePlanner(input).Make(); }

}  // namespace ringmaster::job
