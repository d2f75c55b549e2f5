#pragma once

// Decides how to suspend a job (spec.suspend). First the operator asks the launcher for a
// checkpoint, so that no steps have to be repeated. Then it sends an order without workers, so
// that the ranks stop cleanly. Finally it deletes all Pods; in mode Restart, it then waits until
// the program has ended in them. A suspension that has started is completed even if the job is
// resumed meanwhile. The Services and the Secret remain. Pure functions.

#include <chrono>

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// The time limit for the checkpoint. Other jobs may wait for the resources of a suspended job.
inline constexpr std::chrono::minutes kCheckpointLimit{2};
// The time limit for the ranks to stop after they get the order; then the Pods are deleted anyway.
// A deleted Pod has at least as much time to terminate, and the program's stopGraceSeconds.
inline constexpr std::chrono::seconds kSuspendLimit{30};

// Returns true if the job must be suspended or is being suspended.
bool MustBeSuspended(const api::TrainingJob& job);

// Returns the suspension's next plan. REQUIRES: the job has not ended and must be suspended.
Plan MakeSuspendPlan(const PlanInput& input);

// Returns true if the condition Suspended is true: all Pods are gone or being deleted, and no
// program of mode Restart runs in them.
bool IsSuspended(const api::TrainingJobStatus& status);

// Adds the condition and the event of a resumption to the plan that creates the job's Pods.
void PlanResumption(const PlanInput& input, Plan& plan);

}  // namespace ringmaster::job
