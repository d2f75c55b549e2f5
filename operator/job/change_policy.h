#pragma once

// What to tell people about a spec that changed while the job runs: its Pods are made from one text
// until it is suspended (run_pin.h). Pure; part of every plan.

#include "operator/job/plan.h"

namespace ringmaster::job {

// Condition ChangeRefused, and an event when a change is refused. REQUIRES: the job had not ended
// before this plan.
void DescribeChange(const PlanInput& input, Plan& plan);

}  // namespace ringmaster::job
