#pragma once

// Decides what to do about a job, as a pure function of its spec, its objects, its launcher's
// reports and the time. The reconciler collects the input and executes the plan; this function
// does no I/O.
//
//   Plan plan = MakePlan({.job = *job, .observed = Observe(...), ...});
//
// The plan combines these policies: verdict_policy.h (whether the job has ended), deadline_policy.h
// (time limits), suspend_plan.h (suspension), cleanup_policy.h (what to delete after the end),
// launcher_policy.h and loss_policy.h (which Pods are lost), leave_policy.h (which workers leave,
// and when), image_policy.h (whether the image can be pulled), replacement_policy.h (how soon Pods
// are replaced), event_policy.h and describe_status.h's policies (events and the status).

#include <chrono>
#include <cstddef>

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Returns the period of status writes that change only the progress. The period limits such writes
// to 100 per second for all jobs together, but is at most ten seconds.
std::chrono::milliseconds ProgressPeriod(std::size_t jobs);

// Returns the plan of a job. REQUIRES: the job is not being deleted.
Plan MakePlan(const PlanInput& input);

}  // namespace ringmaster::job
