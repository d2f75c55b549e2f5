#pragma once

// The plan of a job that goes on. make_plan.cc alone uses it.

#include "operator/job/model/plan.h"

namespace ringmaster::job {

Plan MakeLivePlan(const PlanInput& input);

}  // namespace ringmaster::job
