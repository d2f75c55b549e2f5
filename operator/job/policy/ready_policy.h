#pragma once

// Sets the condition WorkersReady: whether all workers are ready, and if not, why. Pure functions.

#include <optional>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/launcher_view.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// For the workers that the launcher's answer names. Leaving workers do not count as ready, because
// others are wanted.
void CountWorkers(const Observed& observed, const control::LauncherStatus& answer,
                  api::WorkerCounts& workers);

// The condition WorkersReady. `launcher`: the present one; null if it was never asked. `status`
// has the new counts, failures and crashes, and the old condition. None: that stands.
std::optional<api::Condition> JudgeReady(const api::TrainingJob& job, const Observed& observed,
                                         const JobMemory& memory, const LauncherView* launcher,
                                         const PodsOutlook& outlook,
                                         const api::TrainingJobStatus& status, Clock::Time now);

}  // namespace ringmaster::job
