#pragma once

// What to tell people about a spec that changed while the job runs: its Pods are made from one text
// until it is suspended (run_pin.h). Pure; part of every plan.

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// Condition ChangeRefused, and an event when a change is refused. REQUIRES: the job had not ended
// before this plan. `changed`: fields of its spec that differ from what its run is made from.
void DescribeChange(const std::vector<std::string>& changed, const api::TrainingJob& job,
                    Clock::WallTime now, Plan& plan);

}  // namespace ringmaster::job
