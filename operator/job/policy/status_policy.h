#pragma once

// What to tell people about a job: counts, conditions, progress and the one-word state, from what
// exists and what the launcher says. Pure; make_plan.h calls it after it has decided what to do.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "operator/api/types.h"
#include "operator/job/model/plan.h"
#include "operator/job/policy/verdict_policy.h"

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
