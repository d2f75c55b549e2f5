#pragma once

// Fills a job's status: counts, numbers, conditions and the one-word state. The sources are the
// existing objects, the launcher's reports and the decisions of the policies. The plans call these
// functions after they have decided what to do. Pure functions.

#include <string>

#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/plan.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

// Updates `status`, which has the old values, to the status of a running job.
void DescribeLive(const PlanInput& input, const PodsOutlook& outlook,
                  api::TrainingJobStatus& status);

// Updates `status` for an ended job. The numbers of its verdict replace the last known numbers.
void DescribeOutcome(const PlanInput& input, const Outcome& outcome,
                     api::TrainingJobStatus& status);

// Updates `status` for a job that is being suspended. `what`: what the operator does or waits for.
void DescribeSuspending(const PlanInput& input, std::string what, api::TrainingJobStatus& status);

// Updates `status` for a suspended job. `kept`: the state from which the job will resume, as text.
void DescribeSuspended(const PlanInput& input, const std::string& kept,
                       api::TrainingJobStatus& status);

// Sets the condition Suspended of a job that is resumed.
void DescribeResumed(const PlanInput& input, api::TrainingJobStatus& status);

// Sets the fields for the training progress and for the saved state from the launcher's reports.
void DescribeKept(const PlanInput& input, const control::LauncherStatus& answer,
                  api::TrainingJobStatus& status);

// Sets the fields that may still change after the end of a job: the counts and the observed
// generation.
void DescribeCounts(const PlanInput& input, api::TrainingJobStatus& status);

// Sets a condition with its generation and time. Plans set all conditions with this function.
void SetCondition(const PlanInput& input, api::Condition condition, api::TrainingJobStatus& status);

}  // namespace ringmaster::job
