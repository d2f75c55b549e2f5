#pragma once

// Whether all workers of a job are ready, and if not, why: its condition Ready.

#include <chrono>
#include <optional>
#include <string>

#include "operator/api/types.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

// What the plan decided about Pods, as far as the status speaks of it.
struct PodsOutlook {
  bool complete = false;       // the launcher and all wanted workers exist
  bool launcher_lost = false;  // there is none, or it ended: nothing of it counts any more
  std::chrono::milliseconds back_off{0};  // creates wait this long after failures
  bool worker_lost = false;               // at least one was found lost or ended just now
  std::string launcher_held;  // why a silent launcher is not replaced; empty: it is none, or it is
  std::string unreachable;    // why nothing is done about nodes that are not ready; empty: nothing
};

// None: the old condition stands.
std::optional<api::Condition> DescribeReady(const PlanInput& input, const PodsOutlook& outlook,
                                            const api::TrainingJobStatus& status);

}  // namespace ringmaster::job
