#include "operator/job/planner/make_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/reports.h"
#include "operator/job/planner/describe_status.h"
#include "operator/job/planner/live_plan.h"
#include "operator/job/planner/suspend_plan.h"
#include "operator/job/policy/change_policy.h"
#include "operator/job/policy/cleanup_policy.h"
#include "operator/job/policy/crash_policy.h"
#include "operator/job/policy/deadline_policy.h"
#include "operator/job/policy/event_policy.h"
#include "operator/job/policy/image_policy.h"
#include "operator/job/policy/ownership.h"
#include "operator/job/policy/replacement_policy.h"
#include "operator/job/policy/status_write_policy.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

namespace {

void CleanUp(const PlanInput& input, Plan& plan) {
  PlanPodCleanUp(input.job.spec.run_policy.clean_pods, input.observed, input.memory.ended_since,
                 input.now, plan);
}

Plan PlanEnd(const PlanInput& input, const Outcome& outcome) {
  Plan plan;
  plan.status = input.job.status;
  if (outcome.failure) AddFailure(plan.status.failures, *outcome.failure);
  DescribeOutcome(input, outcome, plan.status);
  AddRestoredEvent(input.job.status, plan);
  plan.AddEvent(!outcome.succeeded, outcome.succeeded ? api::kEventSucceeded : outcome.reason,
                api::kActionFinish, outcome.message);
  CleanUp(input, plan);
  return plan;
}

// The time in which another installation, which may accept the job, can create the job's Service.
constexpr auto kOthersFirst = std::chrono::seconds(1);

// Claims a job that no installation manages. A later plan, after the claim, ends the job.
Plan PlanClaim(const PlanInput& input) {
  Plan plan;
  plan.claims = true;
  plan.status = input.job.status;
  const Clock::Time since = input.memory.unclaimed_since.value_or(input.now);
  if (input.now - since < kOthersFirst) {
    plan.RequeueWithin(
        std::chrono::ceil<std::chrono::milliseconds>(since + kOthersFirst - input.now));
    return plan;
  }
  plan.status.installation = input.installation;
  return plan;
}

Plan PlanAfterEnd(const PlanInput& input) {
  Plan plan;
  plan.status = input.job.status;
  DescribeCounts(input, plan.status);
  CleanUp(input, plan);
  PlanEndOfLife(input.job, input.wall_now, plan);
  return plan;
}

// Returns true if the job is not allowed. Another installation, with other profiles, may allow it.
bool IsNotAllowed(const std::optional<Refusal>& refusal) {
  return refusal && (refusal->stalled || refusal->cause == RefusalCause::kRefusedByProfile);
}

std::optional<Outcome> Judge(const PlanInput& input) {
  // A job that has trained continues: a webhook that rejects its objects now may admit them later.
  const bool begun = input.job.status.has_trained;
  auto outcome = JudgeOutcome(input.observed, begun, FormatTime(input.wall_now));
  const std::optional<Refusal>& refusal = input.memory.refusal;
  if (outcome || begun || !refusal || refusal->cause != RefusalCause::kInvalidPod) {
    return outcome;
  }
  return Outcome{
      .succeeded = false,
      .reason = ReasonOf(refusal->cause),
      .message = refusal->message + "; correct the spec, then delete the job and apply it again",
      .verdict = std::nullopt,
      .failure = std::nullopt};
}

// Ends a job after a time limit or repeated crashes. `known` has the failures and crashes so far.
Plan PlanTimeOver(const PlanInput& input, const Outcome& outcome,
                  const api::TrainingJobStatus& known) {
  Plan plan = PlanEnd(input, outcome);
  plan.status.failures = known.failures;
  if (outcome.failure) AddFailure(plan.status.failures, *outcome.failure);
  plan.status.crashes = known.crashes;
  const PodPtr& launcher = input.observed.launcher;
  if (launcher != nullptr && !launcher->deleting && !launcher->Ended()) {
    plan.EndLauncher(*launcher);
  }
  return plan;
}

// Delays the end until the launcher has been polled: ranks may have trained without an operator.
ClockCheck OnceAsked(const PlanInput& input, const ClockCheck& check) {
  if (check.expired && NotAskedYet(input)) return {.expired = false, .left = kAskFirst};
  return check;
}

// Returns the plan of a job that continues, or that ends because a time limit has expired.
Plan PlanWithinTime(const PlanInput& input) {
  const ClockCheck deadline = CheckDeadline(input.job, input.wall_now);
  if (deadline.expired) {
    return PlanTimeOver(input, DeadlineExceeded(input.job), input.job.status);
  }
  Plan plan = MakeLivePlan(input);
  if (const auto crashes = JudgeCrashes(input.job, plan.status)) {
    if (!NotAskedYet(input)) return PlanTimeOver(input, *crashes, plan.status);
    plan.RequeueWithin(kAskFirst);
  }
  const ClockCheck start = OnceAsked(input, CheckStart(input.job, plan.status, input.wall_now));
  if (start.expired) return PlanTimeOver(input, StartTimedOut(input.job, plan.status), plan.status);
  const ClockCheck images =
      OnceAsked(input, CheckImages(input.job, input.observed, input.wall_now));
  if (images.expired) {
    return PlanTimeOver(input, ImageUnavailable(input.observed, input.wall_now), plan.status);
  }
  for (const ClockCheck& clock : {deadline, start, images}) {
    if (clock.left) plan.RequeueWithin(*clock.left);
  }
  return plan;
}

// Sets the condition Managed to True if an uninstallation has set it to False.
void DescribeManaged(const PlanInput& input, api::TrainingJobStatus& status) {
  const api::Condition* managed = api::FindCondition(status.conditions, api::kManaged);
  if (managed == nullptr || managed->status == api::ConditionStatus::kTrue) return;
  SetCondition(
      input,
      {.type = api::kManaged,
       .status = api::ConditionStatus::kTrue,
       .reason = api::kReasonAdopted,
       .message = "the operator of the installation " + input.installation + " runs this job"},
      status);
}

// Sets the condition ChangePending. Also records an event for changes that are not applied.
void DescribeChange(const PlanInput& input, Plan& plan) {
  auto notice = NoticeOfChange(input.changed, plan.status);
  if (!notice) return;
  const bool refused = notice->status == api::ConditionStatus::kTrue;
  if (refused && !api::IsTrue(plan.status.conditions, api::kChangePending)) {
    plan.AddEvent(true, api::kEventChangePending, api::kActionWait, notice->message);
  }
  SetCondition(input, *std::move(notice), plan.status);
}

// Plans to add or remove the finalizer. A job needs the finalizer once its workers may have written
// checkpoints.
void PlanHold(const api::TrainingJob& job, Plan& plan) {
  const bool wanted = job.spec.DeletesCheckpoints();
  const bool may_have_some = job.status.launcher_term > 0 || !plan.create_workers.empty();
  plan.hold = wanted && may_have_some && !job.held;
  plan.let_go = job.held && !wanted;
}

}  // namespace

std::chrono::milliseconds ProgressPeriod(std::size_t jobs) {
  constexpr std::size_t kWritesPerSecond = 100;
  constexpr std::chrono::milliseconds kMost{10'000};
  const std::size_t least = static_cast<std::size_t>(kMost.count()) * kWritesPerSecond / 1000;
  if (jobs >= least) return kMost;
  return std::max(kLeastProgressPeriod,
                  std::chrono::milliseconds(static_cast<int64_t>(jobs * 1000 / kWritesPerSecond)));
}

Plan MakePlan(const PlanInput& input) {
  const bool unclaimed =
      IsUnclaimed(input.job, input.observed.launcher_service.get(), input.installation);
  const bool handed_over = IsHandedOver(input.job, input.installation);
  Plan plan;
  if (api::IsTerminal(input.job.status)) {
    plan = PlanAfterEnd(input);
  } else if (const auto outcome = Judge(input)) {
    plan = unclaimed ? PlanClaim(input) : PlanEnd(input, *outcome);
    plan.confirm_claim =
        input.observed.launcher_service == nullptr && !input.installation.empty() && !handed_over;
  } else if (MustBeSuspended(input.job)) {
    plan = MakeSuspendPlan(input);
  } else if (unclaimed && IsNotAllowed(input.memory.refusal)) {
    plan = PlanClaim(input);
  } else {
    plan = PlanWithinTime(input);
  }
  if (!api::IsTerminal(input.job.status)) DescribeChange(input, plan);
  DescribeManaged(input, plan.status);
  PlanHold(input.job, plan);
  if (handed_over) plan.status.installation = input.installation;
  plan.claim_service =
      MustClaimService(input.job, input.observed.launcher_service.get(), input.installation);
  // The claim gives the orders their term.
  if (plan.claim_service) plan.order.reset();
  DecideStatusWrite(input.job.status, input.memory.status_writes, input.progress_period, input.now,
                    plan);
  if (unclaimed && plan.write_status && !plan.create_services) {
    plan.status.installation = input.installation;
  }
  return plan;
}

}  // namespace ringmaster::job
