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

// Counts the ready workers and the members in the launcher's answer. Leaving workers do not count
// as ready, because they are not wanted.
void CountWorkers(const Observed& observed, const control::LauncherStatus& answer,
                  api::WorkerCounts& workers);

// Returns the condition WorkersReady, or nothing to keep the old one. `launcher`: the current one;
// null if it was never polled. `status` has new counts, failures and crashes, but old conditions.
std::optional<api::Condition> JudgeReady(const api::TrainingJob& job, const Observed& observed,
                                         const JobMemory& memory, const LauncherView* launcher,
                                         const PodsOutlook& outlook,
                                         const api::TrainingJobStatus& status, Clock::Time now);

}  // namespace ringmaster::job
