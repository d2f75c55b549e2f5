#include "operator/job/plan.h"

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/live_plan.h"
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

// What is left of a job that has ended: Pods of which anything still runs are deleted, the others
// stay for their logs.
void PlanCleanUp(const PlanInput& input, Plan& plan) {
  std::vector<PodPtr> running = input.observed.live;
  for (const auto* ended : {&input.observed.completed, &input.observed.failed}) {
    running.insert(running.end(), ended->begin(), ended->end());
  }
  if (input.observed.launcher != nullptr) running.push_back(input.observed.launcher);
  running.insert(running.end(), input.observed.old_launchers.begin(),
                 input.observed.old_launchers.end());
  std::erase_if(running, [](const PodPtr& pod) { return pod->deleting || pod->Over(); });
  if (running.empty()) return;
  const auto waited = input.memory.ended_since ? input.now - *input.memory.ended_since
                                               : Clock::Time::duration::zero();
  if (waited < kSelfEndGrace) return plan.RequeueWithin(CeilMillis(kSelfEndGrace - waited));
  for (const PodPtr& pod : running) plan.Delete(*pod);
}

Plan PlanTheEnd(const PlanInput& input, const Outcome& outcome) {
  Plan plan;
  plan.status = input.job.status;
  if (outcome.failure) AddFailure(plan.status.failures, *outcome.failure);
  DescribeOutcome(input, outcome, plan.status);
  plan.Tell(!outcome.succeeded, outcome.succeeded ? api::kEventSucceeded : outcome.reason,
            api::kActionFinish, outcome.message);
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
    plan = MakeLivePlan(input);
  }
  DecideStatusWrite(input, plan);
  return plan;
}

}  // namespace ringmaster::job
