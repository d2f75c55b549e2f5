#pragma once

// The plan of a job that goes on. plan.cc alone uses it.

#include "operator/job/plan.h"

namespace ringmaster::job {

Plan MakeLivePlan(const PlanInput& input);

}  // namespace ringmaster::job
