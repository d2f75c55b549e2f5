#pragma once

// Reports restarts of programs in mode Restart, caused by a new world or a lost launcher. A Warning
// event and an entry of status.failures state the reason and the program's uptime. Pure functions.

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Reports a restart because of a lost launcher, once for each loss: only if the condition Running
// is still true. REQUIRES: the launcher is lost. `launcher` may be null.
void ReportRestartByLauncher(const api::TrainingJob& job, const PodPtr& launcher,
                             Clock::WallTime now, Plan& plan);

// Reports a restart because of a new world, if plan.status.last_recovery, which must be the newest
// recovery, differs from the one in `old`.
void ReportRestartInNewWorld(const api::TrainingJobStatus& old, Clock::WallTime now, Plan& plan);

}  // namespace ringmaster::job
