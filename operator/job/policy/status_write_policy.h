#pragma once

// Decides when to write a job's status: immediately for changes that the operator observes itself,
// periodically for progress (ProgressPeriod), and within a budget for other reports of the launcher
// (report_budget.h). This is the last step of a plan. Pure functions.

#include <chrono>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Sets write_status and of_reports if plan.status differs from `old`. `period`: the period of
// writes that change only the progress. A delayed write also delays the events that describe it.
void DecideStatusWrite(const api::TrainingJobStatus& old, const StatusWrites& earlier,
                       std::chrono::milliseconds period, Clock::Time now, Plan& plan);

}  // namespace ringmaster::job
