#pragma once

// Marks the Pods that have to go, and deletes what has to: Pods, the pin of a run that is over, the
// job itself. Parts of the actor, called on the job's worker; the requests for many Pods run side
// by side on the request pool's threads. No state, and no lock but JobRequests'.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Done where the Pod is gone already. kConflict: it has changed, or another one has its name.
Result<void> DeletePod(const ActorTools& tools, const api::TrainingJob& job, const PodDelete& pod);

void MarkPods(JobRequests& requests, const std::vector<PodMark>& pods);
void DeletePods(JobRequests& requests, const std::vector<PodDelete>& pods);
// Notes what becomes of it, too.
Result<void> DeletePin(JobRequests& requests, const std::string& uid);
void DeleteJob(JobRequests& requests);

}  // namespace ringmaster::job
