#pragma once

// What of a plan people are told as events, beyond what its other policies tell themselves: changes
// from the old status to the new one. Pure.

#include "operator/job/model/plan.h"
#include "operator/job/policy/status_policy.h"

namespace ringmaster::job {

// To plan.events. REQUIRES: plan.status is final.
void AddEvents(const PlanInput& input, const PodsOutlook& outlook, Plan& plan);

// Of these, with what training began: also of a job that ended before anybody asked.
void TellBeginning(const api::TrainingJobStatus& old, Plan& plan);

}  // namespace ringmaster::job
