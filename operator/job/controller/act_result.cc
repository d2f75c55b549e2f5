#include "operator/job/controller/act_result.h"

#include <algorithm>

namespace ringmaster::job {

namespace {

// The initial delay of a retry after a refusal, or after a conflict with another client's write.
constexpr std::chrono::milliseconds kLookAgain{10};

void UpdateMemory(const ActResult& result, const api::TrainingJob& job, const Plan& plan,
                  JobMemory& memory) {
  if (result.unpinned) memory.pin.reset();
  if (result.pin_changed) memory.pin_sought = false;
  if (result.pin) {
    memory.pin = result.pin;
    memory.pin_sought = true;
  }
  if (result.unused_term) memory.unused_term = *result.unused_term;
  memory.taken_names.insert(result.taken_names.begin(), result.taken_names.end());
  if (result.admitted) memory.admitted = *result.admitted;
  if (result.isolation) memory.isolation = result.isolation;
  if (result.phase_since) memory.phase_since = result.phase_since;
  if (!result.status_written) return;
  if (plan.of_reports) memory.status_writes.reports.Spend(*result.status_written);
  if (plan.status.progress != job.status.progress ||
      plan.status.checkpoint != job.status.checkpoint ||
      plan.status.stragglers != job.status.stragglers) {
    memory.status_writes.progress = result.status_written;
  }
}

// Returns the delay of a retry. The delay grows, in case a store does not catch up for a long time.
std::optional<std::chrono::milliseconds> LookAgain(JobMemory& memory) {
  constexpr int kMostDoublings = 9;
  const int times = std::min(memory.looked_again++, kMostDoublings);
  return kLookAgain * (1 << times);
}

// Returns the delay after a refusal: short if the condition must still report the refusal.
std::optional<std::chrono::milliseconds> AfterRefusal(const Refusal& refusal, Clock::Time now,
                                                      JobMemory& memory) {
  const std::optional<Refusal>& known = memory.refusal;
  const bool reported = known && known->cause == refusal.cause && known->message == refusal.message;
  memory.refusal = refusal;
  if (!reported) return LookAgain(memory);
  return std::max(kLookAgain, std::chrono::ceil<std::chrono::milliseconds>(refusal.retry_at - now));
}

}  // namespace

Result<std::optional<std::chrono::milliseconds>> ApplyResult(const ActResult& result,
                                                             const api::TrainingJob& job,
                                                             const Plan& plan, Clock::Time now,
                                                             JobMemory& memory) {
  UpdateMemory(result, job, plan, memory);
  if (result.job_gone) return plan.requeue_after;
  if (result.refusal) return AfterRefusal(*result.refusal, now, memory);
  if (result.error) return *result.error;
  if (result.again) return LookAgain(memory);
  memory.looked_again = 0;
  const bool tried = plan.CreatesPods() || plan.create_services;
  if (memory.refusal && (tried || memory.refusal->retry_at <= now)) {
    memory.refusal.reset();
    return LookAgain(memory);  // to update the condition, which still reports the refusal
  }
  return plan.requeue_after;
}

}  // namespace ringmaster::job
