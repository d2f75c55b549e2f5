#pragma once

// Is the set of workers that train the one that is wanted? Condition Resizing with the reason that
// a person would give, and the newest recovery. Pure; status_policy.h uses it.

#include "operator/api/types.h"
#include "operator/job/model/plan.h"
#include "operator/job/policy/status_policy.h"

namespace ringmaster::job {

// From the launcher's answer, with the counts of `status` already in place. Nothing is said before
// the first world; while a launcher is silent what was said stands.
void DescribeResizing(const PlanInput& input, const PodsOutlook& outlook,
                      const control::LauncherStatus& answer, api::TrainingJobStatus& status);

}  // namespace ringmaster::job
