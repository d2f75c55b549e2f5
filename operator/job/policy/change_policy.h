#pragma once

// What of a spec changed while the job runs, and what to tell people about it: its Pods are made
// from one text until it is suspended (RunPin in model/job_memory.h). Pure; the reconciler asks
// what has changed, and every plan tells it.

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Where two specs differ in what a run keeps, as paths of fields ("spec.worker.template.spec");
// at most a handful. Empty: nowhere. `pinned`: what the run's Pods are made from.
std::vector<std::string> ChangedFields(const api::TrainingJobSpec& pinned,
                                       const api::TrainingJobSpec& today);

// Condition ChangeRefused, and an event when a change is refused. REQUIRES: the job had not ended
// before this plan. `changed`: fields of its spec that differ from what its run is made from.
void DescribeChange(const std::vector<std::string>& changed, const api::TrainingJob& job,
                    Clock::WallTime now, Plan& plan);

}  // namespace ringmaster::job
