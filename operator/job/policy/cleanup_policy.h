#pragma once

// Decides what to delete after a job has ended: its Pods (spec.runPolicy.cleanPodPolicy), and the
// job itself after its TTL. Pure functions, used by make_plan.h.

#include <optional>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Plans which Pods to delete: none in the first three seconds, because the launcher asks the
// workers of a finished job to end. `ended_since`: when the job's end was first seen; unset: now.
void PlanPodCleanUp(api::CleanPodPolicy policy, const Observed& observed,
                    std::optional<Clock::Time> ended_since, Clock::Time now, Plan& plan);

// Plans to delete the job after its TTL. REQUIRES: the job's status is terminal.
void PlanEndOfLife(const api::TrainingJob& job, Clock::WallTime now, Plan& plan);

}  // namespace ringmaster::job
