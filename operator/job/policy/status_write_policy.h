#pragma once

// When is a job's status written? At once where something changed that the operator sees for
// itself; progress alone in its period (ProgressPeriod); whatever else only the launcher reports
// within its budget (report_budget.h). Pure; the last step of a plan.

#include <chrono>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Sets write_status and of_reports, where plan.status differs from the `old` one. `period`: of
// progress alone. A write that has to wait takes the events along that tell of it.
void DecideStatusWrite(const api::TrainingJobStatus& old, const JobMemory& memory,
                       std::chrono::milliseconds period, Clock::Time now, Plan& plan);

}  // namespace ringmaster::job
