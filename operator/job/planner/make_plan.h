#pragma once

// Decides what to do about a job, as a pure function of its spec, its objects, its launcher's
// reports and the time. The reconciler gathers the input and carries out the plan; this function
// does no I/O.
//
//   Plan plan = MakePlan({.job = *job, .observed = Observe(...), ...});
//
// The plan combines these policies: verdict_policy.h (whether the job has ended), deadline_policy.h
// (time limits), suspend_plan.h (suspension), cleanup_policy.h (what remains of an ended job),
// launcher_policy.h and loss_policy.h (what is lost), leave_policy.h (which workers leave, and
// when), image_policy.h (whether the image can be pulled), replacement_policy.h (how soon Pods are
// replaced), event_policy.h and the policies of describe_status.h (what users are told).

#include <chrono>
#include <cstddef>

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// How often a status is written only for its progress: at most a hundred times a second for all
// jobs together, and at least every ten seconds for each.
std::chrono::milliseconds ProgressPeriod(std::size_t jobs);

// REQUIRES: the job is not being deleted.
Plan MakePlan(const PlanInput& input);

}  // namespace ringmaster::job
