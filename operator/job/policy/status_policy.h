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

// Returns the launcher's message about what it waits for. If Pods of a starting or paused job are
// missing, returns the reason from the condition WorkersReady in `status` instead.
std::string WaitText(const control::LauncherStatus& answer, const api::TrainingJobStatus& status,
                     int min_replicas);

// Returns the condition Running, or nothing to keep the old one. `answer`: the launcher's status;
// null if there is none. `status` must already have the counts, the epoch and WorkersReady.
std::optional<api::Condition> JudgeRunning(const control::LauncherStatus* answer,
                                           bool launcher_lost, const api::TrainingJobStatus& status,
                                           int min_replicas);

// Returns a running job's state: Running, Paused, Starting or Pending. `launcher` may be null.
std::string StateOf(const std::vector<api::Condition>& conditions, const PodPtr& launcher);

// Returns the reason of the condition that best explains `status.state`.
std::string ReasonOfState(const api::TrainingJobStatus& status);

// Returns the condition Reconciling: whether the job is still changing to what its spec requests
// (ranks that train, or no Pods). It is false for a paused job, because a pause may last until a
// user adds workers. `status` must already have its state, its reason and all other conditions.
api::Condition JudgeReconciling(const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
