#pragma once

// A direct job's program is restarted whenever its world of ranks changes or its launcher is lost:
// a Warning event and an entry of status.failures say why, and how long it had run. Pure.

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// REQUIRES: its launcher is lost; `launcher` may be null. Once for each loss: the condition
// Running, which is true until then, becomes false by this plan.
void TellRestartByLauncher(const api::TrainingJob& job, const PodPtr& launcher, Clock::WallTime now,
                           Plan& plan);

// Its launcher reports another world than `old` does. REQUIRES: plan.status.last_recovery is the
// newest.
void TellRestartInNewWorld(const api::TrainingJobStatus& old, Clock::WallTime now, Plan& plan);

}  // namespace ringmaster::job
