#pragma once

// What to tell people about a job: counts, conditions, progress and the one-word state, from what
// exists and what the launcher says. Pure; make_plan.h calls it after it has decided what to do.

#include <cstdint>

#include "operator/api/types.h"
#include "operator/job/model/plan.h"
#include "operator/job/policy/ready_policy.h"
#include "operator/job/policy/verdict_policy.h"

namespace ringmaster::job {

// Status of a job that goes on, on top of the old one in `status`.
void DescribeLive(const PlanInput& input, const PodsOutlook& outlook,
                  api::TrainingJobStatus& status);

// Status of a job that has ended with `outcome`. Verdict's numbers replace the last known ones.
void DescribeOutcome(const PlanInput& input, const Outcome& outcome,
                     api::TrainingJobStatus& status);

// REQUIRES: 0 <= done <= total, 0 < total.
int PercentDone(int64_t done, int64_t total);

// Whether both name the same ranks as stragglers: how slow those are changes all the time.
bool SameStragglers(const api::TrainingJobStatus& a, const api::TrainingJobStatus& b);

// What the launcher says of the training's progress and of what is kept of it.
void DescribeKept(const PlanInput& input, const control::LauncherStatus& answer,
                  api::TrainingJobStatus& status);

// What both have in common, and what may still change after the end: counts and the observed
// generation.
void DescribeCounts(const PlanInput& input, api::TrainingJobStatus& status);

}  // namespace ringmaster::job
