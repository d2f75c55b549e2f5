#include "operator/job/plan.h"

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/cleanup_policy.h"
#include "operator/job/deadline_policy.h"
#include "operator/job/event_policy.h"
#include "operator/job/live_plan.h"
#include "operator/job/replacement_policy.h"
#include "operator/job/status_policy.h"
#include "operator/job/suspend_plan.h"
#include "operator/job/verdict_policy.h"

namespace ringmaster::job {

namespace {

// Progress alone is written this often; anything else that changes is written at once.
constexpr auto kProgressPeriod = std::chrono::seconds(10);

std::chrono::milliseconds CeilMillis(Clock::Time::duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration);
}

Plan PlanTheEnd(const PlanInput& input, const Outcome& outcome) {
  Plan plan;
  plan.status = input.job.status;
  if (outcome.failure) AddFailure(plan.status.failures, *outcome.failure);
  DescribeOutcome(input, outcome, plan.status);
  TellBeginning(input.job.status, plan);
  plan.Tell(!outcome.succeeded, outcome.succeeded ? api::kEventSucceeded : outcome.reason,
            api::kActionFinish, outcome.message);
  PlanPodCleanUp(input, plan);
  return plan;
}

Plan PlanAfterTheEnd(const PlanInput& input) {
  Plan plan;
  plan.status = input.job.status;
  DescribeCounts(input, plan.status);
  PlanPodCleanUp(input, plan);
  PlanEndOfLife(input, plan);
  return plan;
}

void DecideStatusWrite(const PlanInput& input, Plan& plan) {
  const api::TrainingJobStatus& old = input.job.status;
  if (plan.status == old) return;
  api::TrainingJobStatus without_progress = plan.status;
  without_progress.progress = old.progress;
  if (SameStragglers(without_progress, old)) without_progress.stragglers = old.stragglers;
  without_progress.checkpoint = old.checkpoint;
  const bool progress_alone = without_progress == old;
  const auto& written = input.memory.progress_written;
  if (progress_alone && written && input.now - *written < kProgressPeriod) {
    plan.RequeueWithin(CeilMillis(kProgressPeriod - (input.now - *written)));
    return;
  }
  plan.write_status = true;
}

std::optional<Outcome> Judge(const PlanInput& input) {
  // Its spec has been good enough once: whoever refuses its objects now may change his mind.
  const bool begun = input.job.status.epoch > 0;
  auto outcome = JudgeOutcome(input.violations, input.observed, begun, FormatTime(input.wall_now));
  if (outcome || begun || !input.memory.refusal || !input.memory.refusal->user_error) {
    return outcome;
  }
  return Outcome{.succeeded = false,
                 .reason = input.memory.refusal->reason,
                 .message = input.memory.refusal->message,
                 .verdict = std::nullopt,
                 .failure = std::nullopt};
}

// The end by one of the job's clocks.
Plan PlanTimeOver(const PlanInput& input, const Outcome& outcome) {
  Plan plan = PlanTheEnd(input, outcome);
  const PodPtr& launcher = input.observed.launcher;
  if (launcher != nullptr && !launcher->deleting && !launcher->Ended()) {
    plan.EndLauncher(*launcher);
  }
  return plan;
}

// A job that goes on, unless one of its clocks has run out.
Plan PlanWithinTime(const PlanInput& input) {
  const ClockCheck deadline = CheckDeadline(input);
  if (deadline.expired) return PlanTimeOver(input, DeadlineExceeded(input.job));
  Plan plan = MakeLivePlan(input);
  const ClockCheck start = CheckStart(input, plan.status);
  if (start.expired) return PlanTimeOver(input, StartTimedOut(input.job, plan.status));
  for (const ClockCheck& clock : {deadline, start}) {
    if (clock.left) plan.RequeueWithin(*clock.left);
  }
  return plan;
}

}  // namespace

Plan MakePlan(const PlanInput& input) {
  Plan plan;
  if (api::IsTerminal(input.job.status)) {
    plan = PlanAfterTheEnd(input);
  } else if (const auto outcome = Judge(input)) {
    plan = PlanTheEnd(input, *outcome);
  } else if (ShallBeSuspended(input.job)) {
    plan = MakeSuspendPlan(input);
  } else {
    plan = PlanWithinTime(input);
  }
  DecideStatusWrite(input, plan);
  return plan;
}

}  // namespace ringmaster::job
