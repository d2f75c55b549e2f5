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

// `steps_per_second`: 0 when it is unknown.
api::JobProgress ProgressOf(const control::Progress& progress, double steps_per_second,
                            Clock::WallTime now);

// Removes the rate and the expected completion time, which a job has only while its ranks train.
void ForgetRate(api::TrainingJobStatus& status);

// REQUIRES: 0 <= done <= total, 0 < total.
int PercentDone(int64_t done, int64_t total);

// The newest checkpoint; `known`: that of the status. Its time changes only with its step, because
// it is computed from an age.
std::optional<api::CheckpointStatus> CheckpointOf(
    const std::optional<control::CheckpointReport>& newest,
    const std::optional<api::CheckpointStatus>& known, Clock::WallTime now);

// A `known` one keeps its time, because each answer of a launcher contains another age.
std::vector<api::Straggler> StragglersOf(const std::vector<control::Straggler>& reported,
                                         const std::vector<api::Straggler>& known,
                                         Clock::WallTime now);

// Whether both contain the same stragglers, whose step times change all the time.
bool SameStragglers(const api::TrainingJobStatus& a, const api::TrainingJobStatus& b);

api::Recovery RecoveryOf(const control::Recovery& recovery);

// Whether a step was completed after those with which training started. In mode Restart, where a
// program reports no steps: whether its ranks run.
bool HasStepped(const api::TrainingJobSpec& spec, const control::LauncherStatus& answer,
                bool running);

}  // namespace ringmaster::job
