#pragma once

// The time limits of spec.runPolicy: the job's duration, the time until its ranks start, and how
// long it remains after it has ended. All are computed from times in the job's status, so that they
// survive a restart of the operator. Pure functions.

#include <chrono>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

// Whether a time limit has expired and, if not, when it will; neither if there is none.
struct ClockCheck {
  bool expired = false;
  std::optional<std::chrono::milliseconds> left;
};

// `since` is RFC 3339.
ClockCheck CheckClock(const std::string& since, const std::optional<std::chrono::seconds>& limit,
                      Clock::WallTime now);

// runPolicy.activeDeadlineSeconds.
ClockCheck CheckDeadline(const api::TrainingJob& job, Clock::WallTime now);
Outcome DeadlineExceeded(const api::TrainingJob& job);

// runPolicy.startTimeoutSeconds, until the first step is committed. `status` is the current one.
ClockCheck CheckStart(const api::TrainingJob& job, const api::TrainingJobStatus& status,
                      Clock::WallTime now);
// In the words of the condition WorkersReady.
Outcome StartTimedOut(const api::TrainingJob& job, const api::TrainingJobStatus& status);

// runPolicy.ttlSecondsAfterSuccess or ttlSecondsAfterFailure. REQUIRES: the job's status is
// terminal.
ClockCheck CheckTimeToLive(const api::TrainingJob& job, Clock::WallTime now);

}  // namespace ringmaster::job
