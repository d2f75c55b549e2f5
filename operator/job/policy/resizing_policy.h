#pragma once

// Sets the condition Resizing: whether the workers that train are those that are wanted, and if
// not, why. Pure functions.

#include <optional>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// From the launcher's answer, with the counts, the epoch and WorkersReady of `status` already in
// place; `old` is the status before. Nothing is said before the first world; while a launcher is
// silent what was said stands.
std::optional<api::Condition> JudgeResizing(const Observed& observed,
                                            const control::LauncherStatus& answer,
                                            const PodsOutlook& outlook,
                                            const api::TrainingJobStatus& old,
                                            const api::TrainingJobStatus& status, int min_replicas);

}  // namespace ringmaster::job
