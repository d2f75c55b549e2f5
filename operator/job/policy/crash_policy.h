#pragma once

// Detects jobs that crash repeatedly without training progress, in ranks or whole Pods. The
// launcher counts the ranks that it sees die; this policy counts Pods that end together with their
// agents. The sum is stored in status.crashes, so that a new launcher or operator continues the
// count. Pods that the cluster ended (evictions, preemptions, lost nodes, deletions) do not count.
// Pure functions.

#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/views.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

// Its container was killed by a signal or for lack of memory, without having been asked to end.
bool HasCrashed(const PodView& pod);

// In words for people: what is to be done about the container's lack of memory. REQUIRES: it was
// killed for that.
std::string MemoryText(const PodView& pod);

// An entry of status.failures in words: who, where, how it ended, what it printed last.
std::string FailureText(const api::Failure& failure);

// Pods of one job that crash within a few seconds count once, because one node may end many.
// `answer` is the launcher's newest; null: there is none.
void CountCrashedPod(const api::TrainingJob& job, const control::LauncherStatus* answer,
                     Clock::WallTime now, api::TrainingJobStatus& status);

// The current launcher's count, and whether training has progressed since.
void CountCrashesOfLauncher(const api::TrainingJob& job, const control::LauncherStatus* answer,
                            Clock::WallTime now, api::TrainingJobStatus& status);

// The next answer comes from another launcher.
void BeginCountOfNextLauncher(api::TrainingJobStatus& status);

// A description of the newest crash in status.failures. Empty if training has progressed since, or
// for a single crash by a signal that the other ranks survived.
std::string CrashText(const api::TrainingJob& job, const api::TrainingJobStatus& status);

// Why it crashes: OOMKilled or CrashLoop. REQUIRES: CrashText() is not empty.
std::string CrashReason(const api::TrainingJobStatus& status);

// Nothing while the limit is not reached.
std::optional<Outcome> JudgeCrashes(const api::TrainingJob& job,
                                    const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
