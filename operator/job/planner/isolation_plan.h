#pragma once

// Decides whether to write NetworkPolicies, and which nodes they admit. Used only by live_plan.cc.

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// `may_create`: false during the back-off after refused creates, which delays NetworkPolicies, too.
void PlanIsolation(const PlanInput& input, bool may_create, Plan& plan);

}  // namespace ringmaster::job
