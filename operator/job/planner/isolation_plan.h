#pragma once

// Whether a job's network policies are due, and which nodes they admit. live_plan.cc alone uses it.

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Network policies wait like Pods for what refused creates the last time: see `may_create`.
void PlanIsolation(const PlanInput& input, bool may_create, Plan& plan);

}  // namespace ringmaster::job
