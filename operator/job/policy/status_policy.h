#pragma once

// Whether a job trains, as its condition Running says it, and its state in one word. Pure.

#include <optional>
#include <string>
#include <vector>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"

namespace ringmaster::job {

// The condition Running. `answer`: of the launcher; null while it is not heard. `status` has the
// counts and the epoch already. None: the old condition stands.
std::optional<api::Condition> JudgeRunning(const control::LauncherStatus* answer,
                                           bool launcher_lost,
                                           const api::TrainingJobStatus& status);

// Of a job that goes on: Running, Paused, Starting or Pending. `launcher` may be null.
std::string StateOf(const std::vector<api::Condition>& conditions, const PodPtr& launcher);

// The reason of the condition that says most about `status.state`.
std::string ReasonOfState(const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
