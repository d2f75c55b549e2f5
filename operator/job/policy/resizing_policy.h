#pragma once

// Sets the condition Resizing: whether the training workers differ from the wanted ones, and if so,
// why. Pure functions.

#include <optional>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Returns the condition Resizing, or nothing before the first world. Called only if the launcher
// has answered; otherwise the old condition remains. `status` must already have the counts, the
// epoch and WorkersReady; `old`: the previous status.
std::optional<api::Condition> JudgeResizing(const Observed& observed,
                                            const control::LauncherStatus& answer,
                                            const PodsOutlook& outlook,
                                            const api::TrainingJobStatus& old,
                                            const api::TrainingJobStatus& status, int min_replicas);

}  // namespace ringmaster::job
