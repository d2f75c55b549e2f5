#include "operator/job/controller/act_result.h"

#include <algorithm>

#include "operator/job/controller/refusal.h"

namespace ringmaster::job {

namespace {

// The initial delay of a retry after a refusal, or after a conflict with another client's write.
constexpr std::chrono::milliseconds kLookAgain{10};
// A busy API server recovers earlier, so shorter failures of creates are not reported.
constexpr std::chrono::minutes kReportAfter{1};

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

// Returns the refusal to report if all creates have failed for too long with transient errors.
std::optional<Refusal> LastingFailure(const ActResult& result, Clock::Time now, JobMemory& memory) {
  if (!result.create_error) return std::nullopt;
  if (!memory.creates_fail_since || result.created) memory.creates_fail_since = now;
  if (now - *memory.creates_fail_since < kReportAfter) return std::nullopt;
  const int failures = memory.refusal ? memory.refusal->failures : 0;
  Refusal refusal = RefusalOf(*result.create_error, false, failures, now);
  refusal.retry_at = std::max(refusal.retry_at, now + result.create_error->retry_after);
  return refusal;
}

}  // namespace

Result<std::optional<std::chrono::milliseconds>> ApplyResult(const ActResult& result,
                                                             const api::TrainingJob& job,
                                                             const Plan& plan, Clock::Time now,
                                                             JobMemory& memory) {
  UpdateMemory(result, job, plan, memory);
  if (result.job_gone) return plan.requeue_after;
  if (result.refusal) {
    memory.creates_fail_since.reset();
    return AfterRefusal(*result.refusal, now, memory);
  }
  if (const auto lasting = LastingFailure(result, now, memory)) {
    return AfterRefusal(*lasting, now, memory);
  }
  if (result.error) return *result.error;
  if (result.again) return LookAgain(memory);
  memory.looked_again = 0;
  const bool tried = plan.CreatesPods() || plan.create_services;
  const bool waits = memory.refusal && !tried && memory.refusal->retry_at > now;
  if (!waits) memory.creates_fail_since.reset();
  if (memory.refusal && !waits) {
    memory.refusal.reset();
    return LookAgain(memory);  // to update the condition, which still reports the refusal
  }
  return plan.requeue_after;
}

}  // namespace ringmaster::job
