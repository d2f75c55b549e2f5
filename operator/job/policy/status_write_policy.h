#pragma once

// When is a job's status written? At once where something changed that the operator sees for
// itself; progress alone in its period (ProgressPeriod); whatever else only the launcher reports
// within its budget (report_budget.h). Pure; the last step of a plan.

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Sets write_status and of_reports. A write that has to wait takes the events along that tell of
// it.
void DecideStatusWrite(const PlanInput& input, Plan& plan);

}  // namespace ringmaster::job
