#include "operator/job/planner/describe_status.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/count_text.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/reports.h"
#include "operator/job/policy/isolation_policy.h"
#include "operator/job/policy/progress_policy.h"
#include "operator/job/policy/protection_policy.h"
#include "operator/job/policy/ready_policy.h"
#include "operator/job/policy/resizing_policy.h"
#include "operator/job/policy/status_policy.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

// Sets the new condition, if there is one; otherwise keeps the existing condition.
void SetIfAny(const PlanInput& input, std::optional<Condition> condition,
              api::TrainingJobStatus& status) {
  if (condition) SetCondition(input, *std::move(condition), status);
}

// Sets a condition to False.
void Reset(const PlanInput& input, const char* type, const char* reason, std::string message,
           api::TrainingJobStatus& status) {
  SetCondition(input,
               {.type = type,
                .status = ConditionStatus::kFalse,
                .reason = reason,
                .message = std::move(message)},
               status);
}

Condition CreatedOf(bool complete, int workers) {
  return {.type = api::kCreated,
          .status = complete ? ConditionStatus::kTrue : ConditionStatus::kFalse,
          .reason = complete ? api::kReasonCreated : api::kReasonCreating,
          .message = complete
                         ? "the launcher's Pod and " + CountText(workers, "worker Pod") + " exist"
                         : "Pods are being created"};
}

// Sets the fields about the launcher's world. Keeps the old epoch if there is no world yet.
void DescribeWorld(const PlanInput& input, const control::LauncherStatus& answer,
                   api::TrainingJobStatus& status) {
  CountWorkers(input.observed, answer, status.workers);
  if (answer.epoch.number > 0) status.epoch = answer.epoch.number;
  status.world_size = answer.world_size;
  if (!answer.started_by.empty()) status.started_by = answer.started_by;
  status.launch_agent = answer.launch_agent;
  status.stragglers = StragglersOf(answer.stragglers, input.job.status.stragglers, input.wall_now);
  if (answer.last_recovery) status.last_recovery = RecoveryOf(*answer.last_recovery);
}

void ForgetWorld(api::TrainingJobStatus& status) {
  status.workers.ready = status.workers.members = 0;
  status.world_size = 0;
  status.stragglers.clear();
}

// Sets the conditions of a running job. `answer`: the launcher's status; null if the launcher does
// not answer or is lost.
void DescribeConditions(const PlanInput& input, const PodsOutlook& outlook,
                        const control::LauncherStatus* answer, api::TrainingJobStatus& status) {
  if (!api::IsTrue(status.conditions, api::kCreated)) {
    SetCondition(input, CreatedOf(outlook.complete, status.workers.desired), status);
  }
  SetIfAny(input, JudgeIsolation(input.job.spec, input.network_policies, input.memory.isolation),
           status);
  SetIfAny(input,
           JudgeReady({.job = input.job,
                       .observed = input.observed,
                       .refusal = input.memory.refusal,
                       .slow_start = input.memory.slow_start,
                       .launcher = PresentLauncher(input),
                       .outlook = outlook,
                       .now = input.now},
                      status),
           status);
  const int least = input.job.spec.MinReplicas();
  SetIfAny(input, JudgeRunning(answer, outlook.launcher_lost, status, least), status);
  if (answer == nullptr) return;
  SetIfAny(input, JudgeResizing(input.observed, *answer, outlook, input.job.status, status, least),
           status);
  const bool known = api::FindCondition(status.conditions, api::kProtected) != nullptr;
  SetIfAny(input, JudgeProtection(answer->unprotected, known), status);
  SetIfAny(input, JudgeRestored(answer->beginning), status);
}

// Removes the condition Stalled: tools treat an absent condition as False.
void ForgetStall(api::TrainingJobStatus& status) {
  std::erase_if(status.conditions,
                [](const Condition& condition) { return condition.type == api::kStalled; });
}

// Sets or removes the condition Stalled.
void DescribeStall(const PlanInput& input, api::TrainingJobStatus& status) {
  const std::optional<Refusal>& refusal = input.memory.refusal;
  if (!refusal || !refusal->stalled) {
    ForgetStall(status);
    return;
  }
  SetCondition(input,
               {.type = api::kStalled,
                .status = ConditionStatus::kTrue,
                .reason = ReasonOf(refusal->cause),
                .message = refusal->message},
               status);
}

// Updates the conditions of an ended job: resets those about its current state, and keeps
// those about its past.
void SettleConditions(const PlanInput& input, api::TrainingJobStatus& status) {
  const auto end = [&](const char* type, std::string message) {
    Reset(input, type, api::kReasonFinished, std::move(message), status);
  };
  // Changes only the message, and keeps the generation for which the condition was computed.
  const auto reword = [&](Condition condition, std::string message) {
    condition.message = std::move(message);
    api::SetCondition(status.conditions, std::move(condition), FormatTime(input.wall_now));
  };
  for (const char* type : {api::kWorkersReady, api::kRunning}) end(type, "the job has ended");
  for (const char* type : {api::kResizing, api::kSuspended}) {
    if (api::FindCondition(status.conditions, type) != nullptr) end(type, "the job has ended");
  }
  const Condition* created = api::FindCondition(status.conditions, api::kCreated);
  if (created != nullptr && created->status != ConditionStatus::kTrue) {
    end(api::kCreated, "the job ended before all of its Pods existed");
  } else if (created != nullptr) {
    reword(*created, "all of its Pods were created");
  }
  const Condition* kept = api::FindCondition(status.conditions, api::kProtected);
  if (kept != nullptr && kept->status == ConditionStatus::kFalse) {
    reword(*kept, "the job has ended; last message: " + kept->message);
  }
}

// Sets the progress to the step from which the job will resume, because it will repeat all later
// steps.
void RollBackProgress(const api::TrainingJobSpec& spec, api::TrainingJobStatus& status) {
  if (!status.progress || !spec.InPlace()) return;
  // If no checkpoint is known, the operator cannot know which ones are on the volume.
  if (spec.checkpoint && !status.checkpoint) return;
  const int64_t kept = spec.checkpoint ? status.checkpoint->step : 0;
  api::JobProgress& progress = *status.progress;
  progress.step = kept;
  if (progress.percent) progress.percent = PercentDone(progress.step, progress.total_steps);
}

void DescribeVerdict(const PlanInput& input, const control::Verdict& verdict,
                     api::TrainingJobStatus& status) {
  SetIfAny(input, JudgeRestored(verdict.beginning), status);
  status.epoch = verdict.epoch.number;
  status.world_size = verdict.world_size;
  if (verdict.progress) status.progress = ProgressOf(*verdict.progress, 0, input.wall_now);
  status.checkpoint = CheckpointOf(verdict.checkpoint, status.checkpoint, input.wall_now);
}

}  // namespace

void DescribeLive(const PlanInput& input, const PodsOutlook& outlook,
                  api::TrainingJobStatus& status) {
  DescribeCounts(input, status);
  const control::LauncherStatus* answer = outlook.launcher_lost ? nullptr : AnswerOf(input);
  if (outlook.launcher_lost) ForgetWorld(status);
  if (answer != nullptr) {
    DescribeWorld(input, *answer, status);
    DescribeKept(input, *answer, status);
  }
  DescribeConditions(input, outlook, answer, status);
  const bool runs = api::IsTrue(status.conditions, api::kRunning);
  // The ranks may have trained and stopped while no operator ran.
  if (runs || (answer != nullptr && answer->progress)) status.has_trained = true;
  if (answer != nullptr && status.first_step_time.empty() &&
      HasStepped(input.job.spec, *answer, runs)) {
    status.first_step_time = FormatTime(input.wall_now);
  }
  DescribeStall(input, status);
  status.state = StateOf(status.conditions, input.observed.launcher);
  if (status.state != api::kStateRunning) ForgetRate(status);
  status.reason = ReasonOfState(status);
  SetCondition(input, JudgeReconciling(status), status);
}

void DescribeOutcome(const PlanInput& input, const Outcome& outcome,
                     api::TrainingJobStatus& status) {
  DescribeCounts(input, status);
  status.completion_time = FormatTime(input.wall_now);
  status.workers.ready = status.workers.members = 0;
  status.stragglers.clear();
  SettleConditions(input, status);
  const auto end = [&](const char* type) {
    SetCondition(input,
                 {.type = type,
                  .status = ConditionStatus::kTrue,
                  .reason = outcome.reason,
                  .message = outcome.message},
                 status);
  };
  end(outcome.succeeded ? api::kSucceeded : api::kFailed);
  if (!outcome.succeeded) end(api::kStalled);
  status.state = outcome.succeeded ? api::kStateSucceeded : api::kStateFailed;
  status.reason = ReasonOfState(status);
  SetCondition(input, JudgeReconciling(status), status);
  if (outcome.verdict) DescribeVerdict(input, *outcome.verdict, status);
  ForgetRate(status);
}

void DescribeSuspending(const PlanInput& input, std::string what, api::TrainingJobStatus& status) {
  Reset(input, api::kSuspended, api::kReasonSuspending, std::move(what), status);
  SetCondition(input, JudgeReconciling(status), status);
}

void DescribeSuspended(const PlanInput& input, const std::string& kept,
                       api::TrainingJobStatus& status) {
  RollBackProgress(input.job.spec, status);
  ForgetRate(status);
  ForgetStall(status);
  ForgetWorld(status);
  status.epoch = 0;
  status.start_time.clear();
  status.first_step_time.clear();
  status.crashes.reset();
  status.state = api::kStateSuspended;
  status.reason = api::kReasonSuspended;
  SetCondition(input,
               {.type = api::kSuspended,
                .status = ConditionStatus::kTrue,
                .reason = api::kReasonSuspended,
                .message = "the job is suspended and has no Pods; " + kept},
               status);
  for (const char* type : {api::kCreated, api::kWorkersReady, api::kRunning}) {
    Reset(input, type, api::kReasonSuspended, "the job is suspended", status);
  }
  if (api::FindCondition(status.conditions, api::kResizing) != nullptr) {
    Reset(input, api::kResizing, api::kReasonSuspended, "the job is suspended", status);
  }
  SetCondition(input, JudgeReconciling(status), status);
}

void DescribeResumed(const PlanInput& input, api::TrainingJobStatus& status) {
  Reset(input, api::kSuspended, api::kReasonResumed, "spec.suspend is false again", status);
}

void DescribeKept(const PlanInput& input, const control::LauncherStatus& answer,
                  api::TrainingJobStatus& status) {
  if (answer.progress) {
    status.progress =
        ProgressOf(*answer.progress, input.launcher->steps_per_second, input.wall_now);
  }
  status.checkpoint = CheckpointOf(answer.checkpoint, status.checkpoint, input.wall_now);
}

void DescribeCounts(const PlanInput& input, api::TrainingJobStatus& status) {
  status.observed_generation = input.job.generation;
  status.selector = api::WorkerSelector(input.job.uid);
  status.elasticity_mode = input.job.spec.Mode();
  if (input.observed.launcher_service != nullptr && !input.installation.empty()) {
    status.installation = input.installation;
  }
  if (!input.profile.empty()) status.profile = input.profile;
  status.workers.desired = input.job.spec.worker.replicas;
  status.workers.replicas = static_cast<int>(input.observed.live.size());
}

void SetCondition(const PlanInput& input, Condition condition, api::TrainingJobStatus& status) {
  condition.observed_generation = input.job.generation;
  api::SetCondition(status.conditions, std::move(condition), FormatTime(input.wall_now));
}

}  // namespace ringmaster::job
