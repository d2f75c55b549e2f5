#pragma once

// What of a plan people are told as events, beyond what its other policies tell themselves: changes
// from the old status to the new one. Pure.

#include "operator/job/plan.h"
#include "operator/job/status_policy.h"
#include "operator/runtime/event_recorder.h"

namespace ringmaster::job {

// To plan.events. REQUIRES: plan.status is final.
void AddEvents(const PlanInput& input, const PodsOutlook& outlook, Plan& plan);

// Of these, with what training began: also of a job that ended before anybody asked.
void TellBeginning(const api::TrainingJobStatus& old, Plan& plan);

// A planned event as the recorder takes it, regarding this job.
runtime::Event EventOn(const api::TrainingJob& job, const PlannedEvent& event);

}  // namespace ringmaster::job
