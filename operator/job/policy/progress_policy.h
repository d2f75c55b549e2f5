#pragma once

// Fills the training progress in a job's status from its launcher's reports. Pure
// functions.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// Returns status.progress. `steps_per_second`: 0 if it is unknown.
api::JobProgress ProgressOf(const control::Progress& progress, double steps_per_second,
                            Clock::WallTime now);

// Removes the rate and the expected completion time, which a job has only while its ranks train.
void ForgetRate(api::TrainingJobStatus& status);

// Returns the progress in percent. REQUIRES: 0 <= done <= total, 0 < total.
int PercentDone(int64_t done, int64_t total);

// Returns the newest checkpoint. `known`: the checkpoint in the status. If the step is the same,
// keeps the known time, because the new time is computed from an age and varies.
std::optional<api::CheckpointStatus> CheckpointOf(
    const std::optional<control::CheckpointReport>& newest,
    const std::optional<api::CheckpointStatus>& known, Clock::WallTime now);

// Returns the stragglers for the status. Keeps a known straggler's time: the new one varies.
std::vector<api::Straggler> StragglersOf(const std::vector<control::Straggler>& reported,
                                         const std::vector<api::Straggler>& known,
                                         Clock::WallTime now);

// Returns true if both contain the same stragglers. Ignores step times, which always change.
bool SameStragglers(const api::TrainingJobStatus& a, const api::TrainingJobStatus& b);

api::Recovery RecoveryOf(const control::Recovery& recovery);

// Returns true if a step was completed after the state from which training started. In mode
// Restart, in which a program reports no steps, returns `running`.
bool HasStepped(const api::TrainingJobSpec& spec, const control::LauncherStatus& answer,
                bool running);

}  // namespace ringmaster::job
