#pragma once

// Fills a job's status: counts, numbers, conditions and the one-word state. It combines the
// existing objects, the launcher's reports and the decisions of the policies. The plans call it
// after they have decided what to do. Pure functions.

#include "common/control/launcher_api.h"
#include "operator/api/types.h"
#include "operator/job/model/plan.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

// Status of a running job, based on the old one in `status`.
void DescribeLive(const PlanInput& input, const PodsOutlook& outlook,
                  api::TrainingJobStatus& status);

// Status of a job that has ended with `outcome`. Verdict's numbers replace the last known ones.
void DescribeOutcome(const PlanInput& input, const Outcome& outcome,
                     api::TrainingJobStatus& status);

// The launcher's reports on the training progress and on what is saved.
void DescribeKept(const PlanInput& input, const control::LauncherStatus& answer,
                  api::TrainingJobStatus& status);

// Fields of every status that may still change after the end: counts and the observed
// generation.
void DescribeCounts(const PlanInput& input, api::TrainingJobStatus& status);

// For a job that its spec no longer blocks.
void ForgetStall(api::TrainingJobStatus& status);

// Every condition that a plan sets gets its generation and its time here.
void SetCondition(const PlanInput& input, api::Condition condition, api::TrainingJobStatus& status);

}  // namespace ringmaster::job
