#pragma once

// The plan of a job that continues to run. Used only by make_plan.cc.

#include "operator/job/model/plan.h"

namespace ringmaster::job {

Plan MakeLivePlan(const PlanInput& input);

}  // namespace ringmaster::job
