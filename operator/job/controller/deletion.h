#pragma once

// Marks Pods for deletion and deletes Pods, the pin of a finished run, and the job itself. It is a
// part of the actor and called on the job's worker thread; requests for many Pods run in parallel
// on the request pool's threads. It has no state and no lock.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Also succeeds if the Pod is gone. Returns kConflict if it has changed or its name is reused.
Result<void> DeletePod(const ActorTools& tools, const api::TrainingJob& job, const PodDelete& pod);

void MarkPods(JobRequests& requests, const std::vector<PodMark>& pods);
void DeletePods(JobRequests& requests, const std::vector<PodDelete>& pods);
// Deletes the pin and notes the result.
Result<void> DeletePin(JobRequests& requests, const std::string& uid);
void DeleteJob(JobRequests& requests);

}  // namespace ringmaster::job
