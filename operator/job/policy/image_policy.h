#pragma once

// Handles images that cannot be pulled. If the registry reports that an image is missing or not
// accessible, retries do not help: a job that has not started fails after kImageTimeout, unless it
// has a start timeout. If a registry does not answer, retries may succeed. Pure functions.

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/policy/deadline_policy.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

inline constexpr std::chrono::minutes kImageTimeout{10};

// Returns true if a container with this reason waits because its image could not be pulled.
bool IsImageWait(const std::string& waiting_reason);

// Checks kImageTimeout, counted from the Pod's scheduling: the wait for a node does not count.
ClockCheck CheckImages(const api::TrainingJob& job, const Observed& observed, Clock::WallTime now);
// Returns the job's failure. REQUIRES: CheckImages(...).expired.
Outcome ImageUnavailable(const Observed& observed, Clock::WallTime now);

}  // namespace ringmaster::job
