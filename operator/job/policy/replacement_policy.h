#pragma once

// Decides how soon a failed Pod is re-created: immediately for the first failures, then with a
// growing delay. The delay depends on the failures in the job's status, so that a restarted
// operator continues with the same delays. Pure functions.

#include <chrono>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/membership.h"
#include "operator/api/types.h"

namespace ringmaster::job {

enum class FailedRole { kWorker, kLauncher };

// Returns the delay from `now` until the next Pod of this role is created; may be zero. Failures
// within five seconds of each other count once, because a lost node with many Pods is not a crash
// loop. Failed ranks in a running Pod do not count, because their agent restarts them.
std::chrono::milliseconds ReplacementDelay(const std::vector<api::Failure>& failures,
                                           FailedRole role, Clock::WallTime now);

// Adds a failure as the newest entry and returns true, unless an entry exists for the same start of
// the rank, or for the same Pod and reason. If the list is too long, removes old failures of ranks
// first, then those of Pods that ended together: ReplacementDelay() needs them least.
bool AddFailure(std::vector<api::Failure>& failures, api::Failure failure);

// Inserts at the front of `failures` the entries of the launcher's list (newest last) that are
// newer than all in `failures`. Returns the number of inserted entries. Skips exits without a Pod,
// because they cannot be distinguished from each other.
std::size_t AddRankFailures(const std::vector<control::RankExit>& exits,
                            const std::string& wall_now, std::vector<api::Failure>& failures);

// Returns the sorted names of nodes on which this job found an unhealthy GPU. The device plugin may
// not have detected the failure and may assign the GPU to another Pod.
std::vector<std::string> NodesWithUnhealthyGpus(const std::vector<api::Failure>& failures);

}  // namespace ringmaster::job
