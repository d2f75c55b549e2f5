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

struct ReadyInput {
  const api::TrainingJob& job;
  const Observed& observed;
  const std::optional<Refusal>& refusal;
  const SlowStart& slow_start;
  const LauncherView* launcher;  // the current one; null if it was never polled
  const PodsOutlook& outlook;
  Clock::Time now;
};

// Returns the condition WorkersReady, or nothing to keep the old one. `status` has new counts,
// failures and crashes, but old conditions.
std::optional<api::Condition> JudgeReady(const ReadyInput& input,
                                         const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
