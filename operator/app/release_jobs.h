#pragma once

// `ringmaster-operator --release-jobs`, the last act of an installation that is removed: on each of
// its jobs that has not ended, the condition Managed=False says that nobody runs it any more, and
// no job is held any more for the removal of its checkpoints. Its LocalTrainingProfiles are
// deleted. It waits for the Lease first, so no operator of the installation acts meanwhile. The
// next operator that runs the job sets the condition to True. Used by main.cc alone.

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/app/options.h"
#include "operator/kube/kube_client.h"

namespace ringmaster {

// Blocks, for at most two minutes until the Lease is ours, and then until all is written. How many
// jobs were written.
Result<int> ReleaseJobs(kube::KubeClient& requests, kube::KubeClient& lease, const Clock& clock,
                        const Config& config);

}  // namespace ringmaster
