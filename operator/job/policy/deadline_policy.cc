#include "operator/job/policy/deadline_policy.h"

#include <string>
#include <utility>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"

namespace ringmaster::job {

namespace {

Outcome Failed(const char* reason, std::string message) {
  return {.succeeded = false,
          .reason = reason,
          .message = std::move(message),
          .verdict = std::nullopt,
          .failure = std::nullopt};
}

// Formats a deadline. REQUIRES: the job has a deadline.
std::string Seconds(const std::optional<std::chrono::seconds>& limit) {
  return std::to_string(limit->count()) + " s";
}

}  // namespace

ClockCheck CheckClock(const std::string& since, const std::optional<std::chrono::seconds>& limit,
                      Clock::WallTime now) {
  if (!limit) return {};
  const auto begin = ParseTime(since);
  if (!begin) return {};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*begin + *limit - now);
  if (left.count() <= 0) return {.expired = true, .left = {}};
  return {.expired = false, .left = left};
}

ClockCheck CheckDeadline(const api::TrainingJob& job, Clock::WallTime now) {
  return CheckClock(job.status.start_time, job.spec.run_policy.active_deadline, now);
}

Outcome DeadlineExceeded(const api::TrainingJob& job) {
  return Failed(
      api::kReasonDeadlineExceeded,
      "the job did not finish within " + Seconds(job.spec.run_policy.active_deadline) +
          " of its start at " + job.status.start_time +
          " (runPolicy.activeDeadlineSeconds); re-create it with more time or more workers");
}

ClockCheck CheckStart(const api::TrainingJob& job, const api::TrainingJobStatus& status,
                      Clock::WallTime now) {
  if (!status.first_step_time.empty()) return {};
  return CheckClock(status.start_time, job.spec.run_policy.start_timeout, now);
}

Outcome StartTimedOut(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  const api::Condition* ready = api::FindCondition(status.conditions, api::kWorkersReady);
  const api::Condition* running = api::FindCondition(status.conditions, api::kRunning);
  const bool waits_for_pods = ready != nullptr && ready->status != api::ConditionStatus::kTrue;
  const api::Condition* missing = waits_for_pods || running == nullptr ? ready : running;
  std::string message =
      std::string(status.epoch > 0 ? "no step was completed" : "no ranks were started") +
      " within " + Seconds(job.spec.run_policy.start_timeout) + " (runPolicy.startTimeoutSeconds)";
  if (missing != nullptr) message += "; " + missing->reason + ": " + missing->message;
  return Failed(api::kReasonStartTimeout,
                message + ". Fix the cause or allow more time, and re-create the job");
}

ClockCheck CheckTimeToLive(const api::TrainingJob& job, Clock::WallTime now) {
  const api::RunPolicy& policy = job.spec.run_policy;
  const auto& conditions = job.status.conditions;
  const bool succeeded = api::IsTrue(conditions, api::kSucceeded);
  const api::Condition* end =
      api::FindCondition(conditions, succeeded ? api::kSucceeded : api::kFailed);
  return CheckClock(end == nullptr ? "" : end->last_transition_time,
                    succeeded ? policy.ttl_after_success : policy.ttl_after_failure, now);
}

}  // namespace ringmaster::job
