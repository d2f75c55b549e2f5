#pragma once

// Builds a job's NetworkPolicies (ADR 48), which restrict connections to its Pods, but not from
// them. Pure functions, used by the actor. The names are deterministic.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// Returns the policy "<job>-<start of UID>": all Pods of the job admit each other. If the workers
// use the host network, it selects only the launcher, because no policy applies to Pods on it.
nlohmann::json JobNetworkPolicy(const api::TrainingJob& job);

// Returns the policy "<job>-<start of UID>-launcher": the launcher also admits the operator to its
// API and, if the workers use the host network, their nodes' `addresses`.
nlohmann::json LauncherNetworkPolicy(const api::TrainingJob& job, const std::string& operator_ns,
                                     const std::vector<std::string>& addresses);

}  // namespace ringmaster::job
