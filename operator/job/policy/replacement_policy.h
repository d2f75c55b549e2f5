#pragma once

// Decides how soon a failed Pod is re-created: at once for the first failures, then with a growing
// delay. It depends on the failures in the job's status, so that a restarted operator continues the
// delays. Pure functions.

#include <chrono>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/control/membership.h"
#include "operator/api/types.h"

namespace ringmaster::job {

enum class FailedRole { kWorker, kLauncher };

// How long to wait from `now` before the next Pod of this role; zero: none. Failures within five
// seconds of each other count as one: a node that ended many Pods is not a crash loop. Ranks that
// ended on a living Pod do not count: their agent restarts them.
std::chrono::milliseconds ReplacementDelay(const std::vector<api::Failure>& failures,
                                           FailedRole role, Clock::WallTime now);

// A failure as the newest entry, unless the same is there: the same start of a rank, or the same
// reason of one Pod. True when it was added. Of too many, those go first that ReplacementDelay
// needs least: ranks' ends but for the newest few, then Pods that ended together with others.
bool AddFailure(std::vector<api::Failure>& failures, api::Failure failure);

// Adds those entries of the launcher's list (newest last) that are newer than all in `failures`, at
// the front, and returns their number. An exit without a Pod cannot be told from another and is
// skipped.
std::size_t AddRankFailures(const std::vector<control::RankExit>& exits,
                            const std::string& wall_now, std::vector<api::Failure>& failures);

// Nodes on which a GPU of this job was found broken, sorted: another Pod may be given it again,
// where the device plugin has not found it so.
std::vector<std::string> NodesWithUnhealthyGpus(const std::vector<api::Failure>& failures);

}  // namespace ringmaster::job
