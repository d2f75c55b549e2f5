#pragma once

// Sets the condition Running, the one-word state, and the fields for tools that do not know
// TrainingJobs. Pure functions.

#include <optional>
#include <string>
#include <vector>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"

namespace ringmaster::job {

// What the launcher waits for, in its own words. If a job that starts or is paused lacks Pods, why
// it lacks them, as WorkersReady of `status` says it.
std::string WaitText(const control::LauncherStatus& answer, const api::TrainingJobStatus& status,
                     int min_replicas);

// The condition Running. `answer`: of the launcher; null while it is not heard. `status` has the
// counts, the epoch and WorkersReady already. Returns none to keep the old condition.
std::optional<api::Condition> JudgeRunning(const control::LauncherStatus* answer,
                                           bool launcher_lost, const api::TrainingJobStatus& status,
                                           int min_replicas);

// For a running job: Running, Paused, Starting or Pending. `launcher` may be null.
std::string StateOf(const std::vector<api::Condition>& conditions, const PodPtr& launcher);

// The reason of the condition that says most about `status.state`.
std::string ReasonOfState(const api::TrainingJobStatus& status);

// The condition Reconciling: whether the job is on its way to what its spec asks for, which is
// ranks that train, or no Pods. A paused job is not, because a pause may last until someone adds
// workers. `status` has its state, its reason and all other conditions.
api::Condition JudgeReconciling(const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
