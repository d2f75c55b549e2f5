#pragma once

// Images that cannot be had: a registry that says that there is no such image, or that it does not
// give it, says so in an hour too. A job that has not begun ends by that after a while, unless its
// own start timeout says when. A registry that does not answer may do so later. Pure.

#include "operator/job/deadline_policy.h"
#include "operator/job/plan.h"
#include "operator/job/verdict_policy.h"

namespace ringmaster::job {

inline constexpr std::chrono::minutes kImageTimeout{10};

// From when a Pod had its node, so that no wait for a node counts.
ClockCheck CheckImages(const PlanInput& input);
// REQUIRES: CheckImages(input).expired.
Outcome ImageNotToBeHad(const PlanInput& input);

}  // namespace ringmaster::job
