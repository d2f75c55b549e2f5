#pragma once

// Builds a job's NetworkPolicies (ADR 48), which restrict connections to its Pods, but not from
// them. Pure functions with deterministic names, used by the actor.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// "<job>-<8 of the UID>": all Pods of the job admit each other. For a job on the host network,
// which NetworkPolicies do not cover, it selects only the launcher.
nlohmann::json JobNetworkPolicy(const api::TrainingJob& job);

// The same with "-launcher": the launcher also admits the operator at its API, and `addresses`,
// those of the nodes whose network the workers use.
nlohmann::json LauncherNetworkPolicy(const api::TrainingJob& job, const std::string& operator_ns,
                                     const std::vector<std::string>& addresses);

}  // namespace ringmaster::job
