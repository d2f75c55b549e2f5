#pragma once

// Sets the condition NetworkIsolated: whether NetworkPolicies protect a job's Pods, and if not,
// why. Pure functions.

#include <optional>

#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"

namespace ringmaster::job {

// Returns the condition if it is known. `network_policies`: whether jobs get NetworkPolicies.
std::optional<api::Condition> JudgeIsolation(const api::TrainingJobSpec& spec,
                                             bool network_policies, const JobMemory& memory);

}  // namespace ringmaster::job
