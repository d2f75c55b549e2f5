#pragma once

// Decides how to suspend a job (spec.suspend). First the launcher is asked for a checkpoint,
// so that no steps have to be repeated. Then it is told that no workers are wanted, so that
// the ranks stop in order, and finally all Pods are deleted. A suspension that has started
// is completed even if the job is resumed meanwhile. Services and Secret remain. Pure
// functions.

#include <chrono>

#include "operator/job/model/plan.h"

namespace ringmaster::job {

// The time limit for a checkpoint: a suspension is often a preemption, and other jobs wait.
inline constexpr std::chrono::minutes kCheckpointLimit{2};
// From the order to end the ranks on; then the Pods are deleted all the same.
inline constexpr std::chrono::seconds kSuspendLimit{30};

// The job is to be suspended, or is being suspended.
bool ShallBeSuspended(const api::TrainingJob& job);

// REQUIRES: the job has not ended and must be suspended.
Plan MakeSuspendPlan(const PlanInput& input);

// The condition Suspended is true: all Pods of the job are gone or being deleted.
bool IsSuspended(const api::TrainingJobStatus& status);

// A suspended job runs again: condition and event, in a plan that makes its Pods.
void PlanResumption(const PlanInput& input, Plan& plan);

}  // namespace ringmaster::job
