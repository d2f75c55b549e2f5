#pragma once

// Decides whether to write NetworkPolicies, and which nodes they admit. Used only by live_plan.cc.

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Like Pods, NetworkPolicies wait for the back-off of refused creates: see `may_create`.
void PlanIsolation(const PlanInput& input, bool may_create, Plan& plan);

}  // namespace ringmaster::job
