#pragma once

// Checks the time limits of spec.runPolicy: the job's duration, the time until its ranks start, and
// the time for which an ended job remains. The limits are computed from times in the job's status,
// so that they survive a restart of the operator. Pure functions.

#include <chrono>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

// Whether a time limit has expired and, if not, the time left; unset if there is no limit.
struct ClockCheck {
  bool expired = false;
  std::optional<std::chrono::milliseconds> left;
};

// Checks a limit that counts from `since` (RFC 3339).
ClockCheck CheckClock(const std::string& since, const std::optional<std::chrono::seconds>& limit,
                      Clock::WallTime now);

// Checks runPolicy.activeDeadlineSeconds.
ClockCheck CheckDeadline(const api::TrainingJob& job, Clock::WallTime now);
Outcome DeadlineExceeded(const api::TrainingJob& job);

// Checks runPolicy.startTimeoutSeconds: the time until the first step. `status`: the new status.
ClockCheck CheckStart(const api::TrainingJob& job, const api::TrainingJobStatus& status,
                      Clock::WallTime now);
// Returns the failure, with the message of the condition WorkersReady as the cause.
Outcome StartTimedOut(const api::TrainingJob& job, const api::TrainingJobStatus& status);

// Checks runPolicy.ttlSecondsAfterSuccess or ttlSecondsAfterFailure. REQUIRES: the job's status is
// terminal.
ClockCheck CheckTimeToLive(const api::TrainingJob& job, Clock::WallTime now);

}  // namespace ringmaster::job
