#pragma once

// Creates the events that the other policies do not create, and adds them to the plan. The events
// come from the difference between the old and the new status. Pure functions.

#include <string>
#include <vector>

#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Adds the events to plan.events. `gone`: the workers of JobMemory that were missed. `unreachable`:
// why workers on nodes that are not ready are kept; empty: none are kept, or an event has reported
// it. REQUIRES: plan.status is final.
void AddEvents(const api::TrainingJob& job, const Observed& observed,
               const std::vector<GoneWorker>& gone, const std::string& unreachable, Plan& plan);

// Adds the event about the state from which training started. Also called for ended jobs.
void AddRestoredEvent(const api::TrainingJobStatus& old, Plan& plan);

}  // namespace ringmaster::job
