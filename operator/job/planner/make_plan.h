#pragma once

// What to do about a job, as a pure function of what is asked for, what exists, what its launcher
// says and the time. The reconciler gathers the inputs and carries the plan out; nothing here talks
// to anyone.
//
//   Plan plan = MakePlan({.job = *job, .observed = Observe(...), ...});
//
// Policies it is made of: verdict_policy.h (has the job ended?), deadline_policy.h (is its time
// over?), suspend_plan.h (shall it not run at present?), cleanup_policy.h (what stays of it?),
// launcher_policy.h and loss_policy.h (who is lost?), leave_policy.h (who goes, and when?),
// image_policy.h (can its image be had?), replacement_policy.h (how soon again?), event_policy.h
// and those of describe_status.h (what to tell people).

#include <chrono>
#include <cstddef>

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// How often a status is written for its progress alone: all jobs together at most a hundred times a
// second, and each at least every ten seconds.
std::chrono::milliseconds ProgressPeriod(std::size_t jobs);

// REQUIRES: the job is not being deleted.
Plan MakePlan(const PlanInput& input);

}  // namespace ringmaster::job
