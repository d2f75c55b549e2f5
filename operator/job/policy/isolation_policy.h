#pragma once

// Sets the condition NetworkIsolated: whether NetworkPolicies protect a job's Pods, and if not,
// why. Pure functions.

#include <optional>

#include "operator/api/types.h"
#include "operator/job/model/job_memory.h"

namespace ringmaster::job {

// Returns the condition if it is known. `network_policies`: whether jobs get NetworkPolicies.
// `latest`: the latest check of the job's NetworkPolicies.
std::optional<api::Condition> JudgeIsolation(const api::TrainingJobSpec& spec,
                                             bool network_policies,
                                             const std::optional<IsolationCheck>& latest);

}  // namespace ringmaster::job
