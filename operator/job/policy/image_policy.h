#pragma once

// Images that cannot be had: a registry that says that there is no such image, or that it does not
// give it, says so in an hour too. A job that has not begun ends by that after a while, unless its
// own start timeout says when. A registry that does not answer may do so later. Pure.

#include <chrono>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/policy/deadline_policy.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

inline constexpr std::chrono::minutes kImageTimeout{10};

// From when a Pod had its node, so that no wait for a node counts.
ClockCheck CheckImages(const api::TrainingJob& job, const Observed& observed, Clock::WallTime now);
// REQUIRES: CheckImages() has expired.
Outcome ImageNotToBeHad(const Observed& observed, Clock::WallTime now);

}  // namespace ringmaster::job
