#pragma once

// Implements `ringmaster-operator --release-jobs`, the last step of an uninstallation. It sets the
// condition Managed=False on each unfinished job of the installation, removes the finalizers that
// wait for the removal of checkpoints, and deletes the LocalTrainingProfiles. It acquires the Lease
// first, so that no operator of the installation acts at the same time. The next operator that
// manages the job sets the condition to True. Used only by main.cc.

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/app/options.h"
#include "operator/kube/kube_client.h"

namespace ringmaster {

// Waits for the Lease for at most two minutes, and then blocks until all jobs are updated. Returns
// the number of updated jobs.
Result<int> ReleaseJobs(kube::KubeClient& requests, kube::KubeClient& lease, const Clock& clock,
                        const Config& config);

}  // namespace ringmaster
