#pragma once

// Carries out one plan of one job, in a fixed order: what has to end, what is missing (creation.h),
// the NetworkPolicies (job_isolation.h), marks, the status in one write (status_writer.h), deletes
// (deletion.h), events. Made by the reconciler for one reconcile, on the worker that has the job,
// and thrown away. It writes nothing of the job's memory: what it came to is its result. No lock
// but that of JobRequests, through which all its parts send.

#include "operator/job/controller/act_result.h"
#include "operator/job/controller/creation.h"
#include "operator/job/controller/job_isolation.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/controller/status_writer.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

class Actor {
 public:
  // `tools` outlive it.
  Actor(const ActorTools& tools, ActorInput input);

  // Once. Blocks on the API server.
  ActResult Act(const Plan& plan);

 private:
  // False where that failed, and is noted: nothing else is done then.
  bool EndFirst(const Plan& plan);
  // What the status names is done after it.
  void FollowStatus(const Plan& plan);

  const ActorInput input_;
  const ActorTools& tools_;
  JobRequests requests_;
  StatusWriter status_;
  JobIsolation isolation_;
  Creation creation_;
};

}  // namespace ringmaster::job
