#pragma once

// Decides whether to write NetworkPolicies, and which nodes they admit. Used only by live_plan.cc.

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Plans the NetworkPolicies. `may_create` is false during the back-off after a refused create.
void PlanIsolation(const PlanInput& input, bool may_create, Plan& plan);

}  // namespace ringmaster::job
