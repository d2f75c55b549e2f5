#pragma once

// Detects jobs whose ranks or Pods crash repeatedly without training progress. The launcher counts
// crashed ranks; this policy counts crashed Pods, whose agents can no longer report. The sum is
// stored in status.crashes, so that a new launcher or operator continues the count. Pods that the
// cluster ended (evictions, preemptions, lost nodes, deletions) do not count.
// Pure functions.

#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/views.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

// Returns true if a signal or the OOM killer ended the container, unless it was asked to stop.
bool HasCrashed(const PodView& pod);

// Returns a message that tells users what to do if the container ran out of memory. REQUIRES: the
// container was OOM-killed.
std::string MemoryText(const PodView& pod);

// Returns a text about an entry of status.failures: worker, node, how it ended, and last output.
std::string FailureText(const api::Failure& failure);

// Adds a crashed Pod to status.crashes. Pods of a job that crash within a few seconds count once,
// because a node failure may end many Pods. `answer`: the launcher's newest status, or null.
void CountCrashedPod(const api::TrainingJob& job, const control::LauncherStatus* answer,
                     Clock::WallTime now, api::TrainingJobStatus& status);

// Adds the current launcher's crashes to status.crashes. Resets it first if training progressed.
void CountCrashesOfLauncher(const api::TrainingJob& job, const control::LauncherStatus* answer,
                            Clock::WallTime now, api::TrainingJobStatus& status);

// Called when another launcher replaces the current one: the new launcher's count starts at zero.
void BeginCountOfNextLauncher(api::TrainingJobStatus& status);

// Returns a text about the newest crash in status.failures, or an empty text if training has
// progressed since, or if the only crash so far was not an out-of-memory kill.
std::string CrashText(const api::TrainingJob& job, const api::TrainingJobStatus& status);

// Returns the reason of the crashes: OOMKilled or CrashLoop. REQUIRES: CrashText() is not empty.
std::string CrashReason(const api::TrainingJobStatus& status);

// Returns the job's failure if the crash limit is reached; otherwise nothing.
std::optional<Outcome> JudgeCrashes(const api::TrainingJob& job,
                                    const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
