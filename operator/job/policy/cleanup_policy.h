#pragma once

// Decides what to delete after a job has ended: its Pods (spec.runPolicy.cleanPodPolicy), and the
// job itself after its TTL. Pure functions, used by make_plan.h.

#include <optional>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Workers of a finished job end by themselves when the launcher says so: nothing is deleted for the
// first three seconds. `ended_since` is when the job was first known to be over; unset: now.
void PlanPodCleanUp(api::CleanPodPolicy policy, const Observed& observed,
                    std::optional<Clock::Time> ended_since, Clock::Time now, Plan& plan);

// REQUIRES: the job's status is terminal.
void PlanEndOfLife(const api::TrainingJob& job, Clock::WallTime now, Plan& plan);

}  // namespace ringmaster::job
