#pragma once

// Is the set of workers that train the one that is wanted? Condition Resizing with the reason that
// a person would give. Pure.

#include <optional>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// From the launcher's answer, with the counts and the epoch of `status` already in place; `old` is
// the status before. Nothing is said before the first world; while a launcher is silent what was
// said stands.
std::optional<api::Condition> JudgeResizing(const Observed& observed,
                                            const control::LauncherStatus& answer,
                                            const PodsOutlook& outlook,
                                            const api::TrainingJobStatus& old,
                                            const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
