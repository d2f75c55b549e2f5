#pragma once

// Creates the events of a plan that no other policy creates, from the difference between the old
// and the new status. Pure functions.

#include <string>

#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// To plan.events. `unreachable`: why workers on nodes that are not ready are kept; empty: they are
// not. REQUIRES: plan.status is final.
void AddEvents(const api::TrainingJob& job, const Observed& observed, const JobMemory& memory,
               const std::string& unreachable, Plan& plan);

// Also for a job that ended before it was reconciled: the state from which training started.
void TellBeginning(const api::TrainingJobStatus& old, Plan& plan);

}  // namespace ringmaster::job
