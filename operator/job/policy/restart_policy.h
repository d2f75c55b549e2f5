#pragma once

// A program that is not our trainer begins anew whenever its world of ranks changes or its launcher
// is lost: a Warning event and an entry of status.failures say why, and how long it had run. Pure.

#include "operator/job/model/plan.h"
#include "operator/job/policy/status_policy.h"

namespace ringmaster::job {

// Its launcher is lost. Once for each loss: the condition Running, which is true until then,
// becomes false by this plan.
void TellRestartByLauncher(const PlanInput& input, const PodsOutlook& outlook, Plan& plan);

// Its launcher reports another world. REQUIRES: plan.status.last_recovery is the newest.
void TellRestartInNewWorld(const PlanInput& input, Plan& plan);

}  // namespace ringmaster::job
