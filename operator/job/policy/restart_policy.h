#pragma once

// Reports restarts of a direct job's program, caused by a new world or a lost launcher. A Warning
// event and an entry of status.failures state the reason and how long it ran. Pure functions.

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// REQUIRES: the launcher is lost; `launcher` may be null. Once for each loss: the condition
// Running, which is true until then, becomes false by this plan.
void TellRestartByLauncher(const api::TrainingJob& job, const PodPtr& launcher, Clock::WallTime now,
                           Plan& plan);

// Its launcher reports another world than `old` does. REQUIRES: plan.status.last_recovery is the
// newest.
void TellRestartInNewWorld(const api::TrainingJobStatus& old, Clock::WallTime now, Plan& plan);

}  // namespace ringmaster::job
