#pragma once

// Executes one plan of one job in a fixed order: ends the launcher or the run, creates objects
// (creation.h), updates NetworkPolicies (job_isolation.h), marks Pods, writes the status once
// (status_writer.h), deletes objects (deletion.h) and sends events. The reconciler creates an actor
// for each reconcile, on the job's worker thread. An actor does not write the job's memory; it
// returns its result. Its parts send requests through JobRequests, which has the only lock.

#include "operator/job/controller/act_result.h"
#include "operator/job/controller/creation.h"
#include "operator/job/controller/job_isolation.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/controller/status_writer.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

class Actor {
 public:
  // `tools` must outlive the actor.
  Actor(const ActorTools& tools, ActorInput input);

  // Call it once. Blocks on the API server.
  ActResult Act(const Plan& plan);

 private:
  // Ends the launcher or the run. On failure, notes the error and returns false to stop the actor.
  bool EndFirst(const Plan& plan);
  // Performs the actions that the written status describes. Call it after the status write.
  void FollowStatus(const Plan& plan);

  const ActorInput input_;
  const ActorTools& tools_;
  JobRequests requests_;
  StatusWriter status_;
  JobIsolation isolation_;
  Creation creation_;
};

}  // namespace ringmaster::job
